"""Text that wants to take over an agent: what it looks like, and how it is looked for."""
