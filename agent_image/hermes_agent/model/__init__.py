"""The door to the models service."""
