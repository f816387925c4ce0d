"""Webhooks in their senders' styles: signatures, payloads, prompts, and texts that are delivered without an agent."""
