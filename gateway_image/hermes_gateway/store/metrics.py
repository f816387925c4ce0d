"""Metrics of the store process."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

CALL_SECONDS = Histogram(
    "hermes_store_call_seconds",
    "Time of a method in the store, without the bus",
    ["method", "code"],
    buckets=(0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
)
RELAYED = Counter("hermes_store_relayed_messages", "Outbox rows that JetStream acknowledged")
RELAY_FAILURES = Counter("hermes_store_relay_failures", "Outbox rows that could not be published and wait")
OUTBOX_WAITING = Gauge("hermes_store_outbox_waiting_messages", "Outbox rows that should have been published already")
RELAY_PAUSED = Gauge("hermes_store_relay_paused_subjects", "Subjects that the bus refuses for now")
OUTBOX_OLDEST_SECONDS = Gauge("hermes_store_outbox_oldest_seconds", "Age of the oldest of them")
DATABASE_UP = Gauge("hermes_store_database_up", "1 while the database answers")
DATABASE_DURABLE = Gauge("hermes_store_database_durable", "1 if the database keeps what it acknowledged")
