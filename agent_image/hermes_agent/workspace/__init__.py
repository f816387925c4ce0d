"""Snapshots of a workspace: a manifest of names, and content in pieces that are named by their hash."""
