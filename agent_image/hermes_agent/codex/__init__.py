"""Turns that are handed to the Codex app server, a program in the sandbox (docs/decisions/0009-codex-app-server.md)."""
