"""The whole product as plain processes on one machine: for `make dev` and for the integration tests.

Real NATS, real PostgreSQL, the real store, models service, gateway, agents and sandboxd. What a cluster adds is missing:
there is no isolation between a command and the machine, and the operator's part is played by `runner.LocalRunner`.
"""
