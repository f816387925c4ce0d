"""The system prompt: gathered once, built in tiers by a pure function, frozen; and what rides outside of it."""
