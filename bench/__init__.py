"""Measurements: each script prints JSON lines, `python -m bench` runs them all, keeps the lines and writes the README's table."""
