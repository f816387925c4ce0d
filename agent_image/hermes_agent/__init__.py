"""The agent process: one conversation loop in one pod, with nothing in it worth stealing but its own session."""
