"""Scheduled runs over HTTP: asked for here, made by the operator. Always by owner: a foreign id is not found."""
