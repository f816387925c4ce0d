"""Who may talk to an agent in a chat. Default is nobody."""
