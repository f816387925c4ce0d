"""Providers: one SDK each behind one door, pure conversions beside them.

| module | what it does |
|---|---|
| `base` | the Provider protocol, and the loop that all of them share |
| `loading` | makes them all |
| `openai`, `anthropic`, `bedrock` | sending and streaming with one SDK each; nothing else imports it |
| `chat_wire`, `responses_wire`, `anthropic_wire`, `bedrock_wire` | neutral → wire, pure and deterministic |
| `chat_reader`, `responses_reader`, `anthropic_reader`, `bedrock_reader` | a stream's events → neutral |
| `quirks`, `thinking`, `parts`, `shapes`, `credentials` | what the wires share |
| `errors` | reasons of failure, and what helps against each: one table |
| `rules`, `limits` | from what a provider says to a reason, and the numbers in it |
| `remedies` | changes of a request that a complaint asks for |
"""
