"""Markdown as answers are written in it: cut into parts, and read into a neutral document that each chat renders."""
