"""Metrics of the gateway. Labels come from enums and fixed names only."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_SLOW = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0)

ACCEPTED = Counter("hermes_gateway_messages_accepted_total", "Messages the bus has stored", ["channel", "duplicate"])
REFUSED = Counter("hermes_gateway_messages_refused_total", "Messages that could not be stored", ["channel", "reason"])
ACCEPT_SECONDS = Histogram(
    "hermes_gateway_accept_seconds", "From publishing a message to the bus's acknowledgement", ["channel"], buckets=_FAST
)
ANSWER_SECONDS = Histogram("hermes_gateway_answer_seconds", "From acceptance to the answer", ["outcome"], buckets=_SLOW)
ANSWERS_POLLED = Counter("hermes_gateway_answers_polled_total", "Answers found in the store because no event had come")
WAITING = Gauge("hermes_gateway_waiting_calls", "Calls that wait for an answer now")
SUBSCRIPTIONS = Gauge("hermes_gateway_session_subscriptions", "Subjects of sessions subscribed now")
HUB_DROPPED = Counter("hermes_gateway_listener_messages_dropped_total", "Messages a slow listener did not get")
DELIVERIES = Counter("hermes_gateway_deliveries_total", "Attempts to deliver a part of an answer", ["channel", "outcome"])
DELIVERY_SECONDS = Histogram("hermes_gateway_delivery_seconds", "Time of one attempt", ["channel"], buckets=_SLOW)
LEASES = Gauge("hermes_gateway_leases_held", "Outbound partitions this replica delivers")
REPLICAS = Gauge("hermes_gateway_replicas_alive", "Replicas that share the outbound partitions, as this one sees it")
UNCERTAIN = Counter(
    "hermes_gateway_deliveries_uncertain_total",
    "Attempts after one whose end is unknown: the receiver may have it",
    ["channel"],
)
STRANGERS = Counter("hermes_gateway_strangers_total", "Messages of people who may not use an account", ["channel"])
SIGNATURES_REFUSED = Counter(
    "hermes_gateway_signatures_refused_total", "Requests whose signature or secret is wrong", ["channel"]
)
REQUESTS = Counter("hermes_gateway_http_requests_total", "HTTP requests answered", ["listener", "status_class"])
