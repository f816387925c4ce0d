"""Measurements: each prints JSON lines; `python -m bench` runs them, keeps the lines and writes the table in the README."""
