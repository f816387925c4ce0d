"""The agent loop: request, stream, tools, append, again; and around it what makes it last."""
