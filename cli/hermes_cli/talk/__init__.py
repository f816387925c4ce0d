"""Holds a conversation: sends messages, follows their turns, shows what happens."""
