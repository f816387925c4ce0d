"""Bus messages in, turns run, acknowledgements out."""
