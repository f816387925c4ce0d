"""Role `models`: the only holder of provider keys and the only importer of provider SDKs.

| module | what it does |
|---|---|
| `app`, `settings`, `metrics` | composition and start; what it is told; what it counts |
| `server`, `endpoint`, `stream` | uvicorn; `POST /v1/stream`; events to lines, heartbeats |
| `tokens` | who asks |
| `service` | one call, from Profile to accounts |
| `profiles`, `file_profiles`, `kubernetes_profiles` | where Profiles and provider Secrets come from |
| `targets`, `routing` | which address, key and provider serve a Profile |
| `addresses` | only public addresses are connected to |
| `usage` | accounts to the store, beside the streams |
| `providers` | one SDK each, and the conversions |
"""
