"""The terminal client `hermes`: talks to a gateway over HTTP, and to a cluster through kubectl.

`app` declares the commands and imports nothing heavy; `commands` does what they say; `talk` holds a conversation;
`api` is the gateway's HTTP API; `connection` finds out where it is; `doctor` looks for what is wrong; `show` prints.
"""
