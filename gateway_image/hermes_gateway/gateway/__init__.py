"""The process the world talks to: channels and API in, signed messages out, answers back. No Kubernetes credential.

| module | what it does |
|---|---|
| `app` | the wiring; the only place that knows all the others |
| `access` | API keys and webhook routes from mounted files, reloaded when they change |
| `profiles` | the operator's projections of Profiles, held in memory |
| `ingest` | one message: route, sign, publish, wake |
| `hub`, `turns` | listens to one session's events and deltas, and waits for the answer |
| `idempotency` | claims an Idempotency-Key for one message |
| `openai_api`, `responses_api`, `sessions_api`, `health` | the API listener |
| `pictures`, `spending` | pictures on their way in; tokens and money as callers read them |
| `channels` | the webhook listener |
| `delivery` | sends answers to where they came from, one gateway a partition |
| `web` | what both listeners share: errors, limits, event streams, servers |
"""
