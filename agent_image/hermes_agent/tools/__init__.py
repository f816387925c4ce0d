"""What the model may do, and the one executor that does it."""
