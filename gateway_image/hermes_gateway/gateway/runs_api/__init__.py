"""Runs as the original's clients know them: started, looked at, watched, steered and stopped by an id of their own."""
