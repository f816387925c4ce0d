"""What touches the API server: one client, one table of what it may call, and the trimmed copies of what it reads."""
