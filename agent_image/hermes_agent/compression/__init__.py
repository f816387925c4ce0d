"""Keeps a conversation within what its model can read, without losing what was asked, done and decided."""
