"""Where people write from. Each channel verifies its platform's request and makes one message of it."""
