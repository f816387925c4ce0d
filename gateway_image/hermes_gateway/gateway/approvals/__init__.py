"""What people answer to an agent's questions."""
