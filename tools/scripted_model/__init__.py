"""A model that answers by script, in the wire formats of OpenAI, Anthropic and Amazon Bedrock (docs/scripted-model.md).

| module | what it does |
|---|---|
| `script` | scripts and steps as models; reads them out of a conversation |
| `turns`, `asked` | what a request of any format asks, as one value |
| `choose` | request and scripts in, one step out |
| `talk` | the answer when no script says anything |
| `openai_format`, `responses_format`, `anthropic_format`, `bedrock_format` | a step as the bytes each provider would send |
| `provider_errors` | error bodies in each provider's own words |
| `play` | sends the bytes: pauses, silence, cuts |
| `memory` | scripts given by API, counters, the ring of requests seen; all bounded |
| `http_server` | HTTP/1.1, as little of it as this needs |
| `server` | routes |
"""
