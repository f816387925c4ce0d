"""The verbs that every process needs; no word of our trade in it beyond the contracts.

| module | what it does |
|---|---|
| `settings` | base of the settings classes: `HERMES_` variables, secrets from files |
| `logs` | JSON lines on stdout, context merged in |
| `metrics`, `operations` | metric registry; HTTP listener with `/metrics`, `/livez`, `/readyz` |
| `lifecycle` | signals become cancellation, tasks run in one group |
| `tracing` | W3C trace context through headers; exporter only when configured |
| `bus` | connects to NATS with a JWT that can be renewed |
| `waiting`, `cancelling` | a cancellation is never lost, and a task that is to end does |
| `rpc` | calls and serves the store's methods over the bus |
| `signing` | the gateway's signature on inbound messages |
| `bus_keys` | makes operator, account and user keys and JWTs, and the server's configuration |
| `streams` | creates streams and buckets |
"""
