"""Prints: rich on a terminal, plain into a pipe, JSON when asked."""
