"""Measurements: each script prints JSON lines; `python -m bench` runs them, keeps the lines and writes the README's table."""
