"""The warm pool: pods that have started everything and wait for a session to become."""
