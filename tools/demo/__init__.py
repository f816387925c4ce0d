"""A first conversation in the terminal, against the local stack or a cluster."""
