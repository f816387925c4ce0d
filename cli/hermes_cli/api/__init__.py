"""The gateway's HTTP API, as docs/api.md describes it."""
