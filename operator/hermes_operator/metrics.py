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
WATCH_EVENTS = Counter("hermes_operator_watch_events_total", "Events of the watches", ["resource"])
BURIED = Counter("hermes_operator_buried_total", "Messages that were given up", ["reason"])
DEAD_LETTERS = Gauge("hermes_operator_dead_letters", "Messages in the dead-letter stream")
CRON_STARTED = Counter("hermes_operator_cron_started_total", "Runs that were started", ["by"])
CRON_ENDED = Counter("hermes_operator_cron_ended_total", "Newest runs that ended, by outcome", ["outcome"])
CRON_SKIPPED = Counter("hermes_operator_cron_skipped_total", "Times that a policy skipped")
CRON_SKEW_SECONDS = Histogram(
    "hermes_operator_cron_skew_seconds",
    "From a run's scheduled minute to its message on the bus",
    buckets=(0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 3600),
)
WARM_PODS = Gauge("hermes_operator_warm_pods", "Pods that are ready to become a session", ["namespace"])
WARM_CLAIMS = Counter(
    "hermes_operator_warm_claims_total",
    "Tries to make a waiting pod a session's: claimed, lost to somebody else, empty pool, unanswered hand-over",
    ["outcome"],
)
ADMISSION_SECONDS = Histogram(
    "hermes_operator_admission_seconds",
    "What a session that starts has waited for a place, where places are limited",
    buckets=(0.1, 1, 5, 15, 30, 60, 300, 900, 3600),
)
CLOCK_SKEW = Gauge("hermes_operator_clock_skew_seconds", "How far our clock is ahead of the API server's")
