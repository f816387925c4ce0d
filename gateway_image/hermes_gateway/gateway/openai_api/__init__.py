"""OpenAI's Chat Completions and Models, spoken for sessions: a model is a Profile, a call is a message."""
