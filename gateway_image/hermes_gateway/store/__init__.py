"""Role `store`: the only owner of PostgreSQL."""
