"""What a call came to: tokens, money and time, for the log, the metrics, the budgets and the store."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from hermes_contracts.conversation import Usage
from hermes_contracts.model_api import Finish, ModelEvent, ModelRequest, SessionClaims
from hermes_contracts.store_api import RecordUsageRequest
from hermes_gateway.models.budgets import BudgetKeeper, Spend
from hermes_gateway.models.catalog import priced
from hermes_gateway.models.metrics import ModelsMetrics
from hermes_gateway.models.routing import Candidate
from hermes_gateway.models.usage import UsageRecorder

log = structlog.get_logger()

CANCELLED = "cancelled"


@dataclass
class Account:
    """One attempt's. `clock` in seconds."""

    candidate: Candidate
    attempt: int
    clock: Callable[[], float] = time.perf_counter
    started: float = field(init=False)
    first: float | None = None
    outcome: str = CANCELLED
    usage: Usage = field(default_factory=lambda: Usage(model_calls=1))

    def __post_init__(self) -> None:
        """Start the clock."""
        self.started = self.clock()

    def saw(self, event: ModelEvent) -> ModelEvent:
        """Take note of an event; the last one leaves with its price."""
        if isinstance(event, Finish):
            self.outcome = "ok"
            self.usage = priced(event.usage, self.candidate.knowledge)
            return event.model_copy(
                update={
                    "usage": self.usage,
                    "provider": self.candidate.route.provider,
                    "model": event.model or self.candidate.route.model,
                    "context_window": self.candidate.knowledge.model.context_window,
                    "place": self.candidate.route.place.field,
                }
            )
        if self.first is None:
            self.first = self.clock() - self.started
            # Until its end tells what it cost: an answer that breaks off was not free.
            price = self.candidate.knowledge.model.price
            self.usage = Usage(model_calls=1, unpriced_calls=int(price is None or bool(price.input or price.output)))
        return event


class Accounts:
    """Settles attempts."""

    def __init__(self, recorder: UsageRecorder, budgets: BudgetKeeper, metrics: ModelsMetrics) -> None:
        self._recorder = recorder
        self._budgets = budgets
        self._metrics = metrics

    def settle(self, claims: SessionClaims, request: ModelRequest, account: Account) -> None:
        """Log, measure and record an attempt that reached for a provider."""
        seconds = account.clock() - account.started
        usage = account.usage
        provider, model = account.candidate.route.provider, account.candidate.route.model
        self._metrics.calls.labels(provider, account.outcome).inc()
        self._metrics.duration.labels(provider).observe(seconds)
        if account.first is not None:
            self._metrics.first_token.labels(provider).observe(account.first)
        for kind in ("input", "output", "cached_input", "cache_write", "reasoning"):
            self._metrics.tokens.labels(provider, kind).inc(getattr(usage, f"{kind}_tokens"))
        self._metrics.cost.labels(provider).inc(usage.cost_nano_usd / 1e9)
        if usage.unpriced_calls:
            self._metrics.unpriced.labels(provider).inc(usage.unpriced_calls)
        log.info(
            "model.call",
            sid=claims.sub, turn_id=request.turn_id, step=request.step, purpose=request.purpose.value, provider=provider,
            model=model, attempt=account.attempt, outcome=account.outcome, milliseconds=round(seconds * 1000, 1),
            first_milliseconds=None if account.first is None else round(account.first * 1000, 1),
            **usage.model_dump(exclude={"model_calls"}),
        )  # fmt: skip
        call_id = uuid.uuid4().hex
        tokens = usage.input_tokens + usage.output_tokens
        self._budgets.spent(Spend(call_id, claims.namespace, claims.profile, claims.sub, usage.cost_nano_usd, tokens))
        self._recorder.put(
            RecordUsageRequest(
                sid=claims.sub, epoch=claims.epoch, turn_id=request.turn_id, step=request.step, call_id=call_id,
                provider=provider, model=model, usage=usage, outcome=account.outcome, milliseconds=seconds * 1000,
                purpose=request.purpose.value,
            )
        )  # fmt: skip
