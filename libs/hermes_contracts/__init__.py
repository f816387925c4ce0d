"""The nouns that cross a process border, as pydantic models and pure functions; nothing here does I/O.

| module | what it holds |
|---|---|
| `crd` | the custom resources: spec, status, printer columns |
| `names` | every derived string of Kubernetes: session ids, object names, labels |
| `subjects` | every subject, stream, consumer and bucket of the bus |
| `bus_permissions` | what each role may publish and receive |
| `envelopes` | what travels on the bus: inbound messages, deltas, events, control hints |
| `conversation` | neutral messages: what a transcript is made of |
| `model_api` | the streaming protocol between agents and the models service |
| `store_api` | the methods of the store, who may call them, their requests and answers |
| `agent_config` | what the operator hands an agent pod |
| `projection` | what the gateway may know of a Profile |
| `installation` | Secrets, ports and database names that one installation shares |
| `access` | API keys and webhook routes |
| `errors` | error codes and the one exception that carries them |
"""

PROTOCOL_VERSION = 1
"""Version of envelopes, store methods and the model protocol; a side accepts its own and the previous one."""
