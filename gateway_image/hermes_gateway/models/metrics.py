"""Metrics of the models service. Labels are providers and outcomes, never names of people or Profiles."""

from __future__ import annotations

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram


class ModelsMetrics:
    """Metric objects, on a registry of the caller's choice."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self.calls = Counter(
            "hermes_models_calls_total",
            "Attempts of model calls, by provider and how they ended",
            ["provider", "outcome"],
            registry=registry,
        )
        self.first_token = Histogram(
            "hermes_models_first_token_seconds",
            "From the request to the provider's first piece",
            ["provider"],
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180),
            registry=registry,
        )
        self.duration = Histogram(
            "hermes_models_call_seconds",
            "From the request to the end of the stream",
            ["provider"],
            buckets=(0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 600, 1800),
            registry=registry,
        )
        self.tokens = Counter(
            "hermes_models_tokens_total", "Tokens used, by provider and kind", ["provider", "kind"], registry=registry
        )
        self.cost = Counter(
            "hermes_models_cost_usd_total", "US dollars, as far as prices are known, by provider", ["provider"],
            registry=registry,
        )  # fmt: skip
        self.unpriced = Counter(
            "hermes_models_unpriced_calls_total", "Calls whose price is not known, by provider", ["provider"],
            registry=registry,
        )  # fmt: skip
        self.retries = Counter(
            "hermes_models_retries_total",
            "Further attempts, by provider that failed, its error code and what came next (wait, rotate, repair, fall_back)",
            ["provider", "code", "step"],
            registry=registry,
        )
        self.cooldowns = Counter(
            "hermes_models_cooldowns_total",
            "Models and keys that were set aside for a while, by provider and which (model, key)",
            ["provider", "kind"],
            registry=registry,
        )
        self.failed = Counter(
            "hermes_models_failed_total", "Calls that nobody could answer, by error code", ["code"], registry=registry
        )
        self.active = Gauge("hermes_models_active_streams", "Streams that are open", registry=registry)
        self.refused = Counter(
            "hermes_models_refused_total",
            "Requests refused before a provider was asked, by error code",
            ["code"],
            registry=registry,
        )
        self.usage_lost = Counter(
            "hermes_models_usage_lost_total", "Usage records that the store did not take", registry=registry
        )  # fmt: skip
