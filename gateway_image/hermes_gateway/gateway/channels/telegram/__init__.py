"""Telegram: people write to a bot in private chats, and in groups by mentioning it or by answering it."""
