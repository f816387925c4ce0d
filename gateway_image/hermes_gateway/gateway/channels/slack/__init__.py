"""Slack: people write to an app in direct messages and by mentioning it; answers grow in the message that carries them."""
