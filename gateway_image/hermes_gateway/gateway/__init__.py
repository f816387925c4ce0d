"""Role `gateway`: channels and HTTP API, authorization, routing, delivery."""
