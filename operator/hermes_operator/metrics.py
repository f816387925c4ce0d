"""Metrics of the operator. Labels come from fixed sets, never from names or texts."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

QUEUE_DEPTH = Gauge("hermes_operator_queue_depth", "Keys that wait for a reconcile")
RECONCILE_SECONDS = Histogram(
    "hermes_operator_reconcile_seconds",
    "Duration of one pass",
    ["kind", "outcome"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)
API_CALLS = Counter("hermes_operator_api_calls_total", "Calls to the API server", ["verb", "resource", "status"])
SESSIONS = Gauge("hermes_operator_sessions", "Sessions by state", ["state"])
STARTUP_SECONDS = Histogram(
    "hermes_operator_startup_seconds",
    "From the decision to start a pod to the agent's first word",
    buckets=(0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 5, 10, 30, 60),
)
START_FAILURES = Counter("hermes_operator_start_failures_total", "Starts that were refused", ["reason"])
PENDING_SESSIONS = Gauge("hermes_operator_pending_sessions", "Sessions with messages waiting, as the last sweep saw them")
LEADER = Gauge("hermes_operator_leader", "1 while this replica acts")
WATCH_STALE = Counter("hermes_operator_watch_stale_total", "Objects that a list showed and the watch had not")
