"""Providers: one SDK each behind one door, pure conversions beside them.

| module | what it does |
|---|---|
| `base` | the Provider protocol |
| `openai`, `anthropic` | client and streaming of one SDK each; nothing else imports it |
| `openai_wire`, `anthropic_wire` | neutral ↔ wire, pure and deterministic |
| `errors` | the one table from a provider's failure to our error |
"""
