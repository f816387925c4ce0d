"""OpenAI's Responses, spoken for sessions: a response is a turn, and what is kept of it is in the store."""
