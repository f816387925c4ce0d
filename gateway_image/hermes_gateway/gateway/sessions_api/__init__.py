"""Sessions as resources: make, list, read, write to, watch, stop, delete. Always by owner: a foreign id is not found."""
