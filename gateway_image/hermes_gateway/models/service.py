"""One model call: find the target, stream it, account for it. Always ends in exactly one `Finish` or `ModelError`."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from dataclasses import dataclass, field

import structlog

from hermes_contracts.conversation import Usage
from hermes_contracts.crd.profile import ProfileSpec
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.model_api import Finish, ModelError, ModelEvent, ModelRequest, SessionClaims
from hermes_contracts.store_api import RecordUsageRequest
from hermes_gateway.models.metrics import ModelsMetrics
from hermes_gateway.models.routing import Routes
from hermes_gateway.models.usage import UsageRecorder

log = structlog.get_logger()

CANCELLED = "cancelled"


@dataclass
class _Account:
    """What a call comes to."""

    started: float = field(default_factory=time.perf_counter)
    first: float | None = None
    outcome: str = CANCELLED
    usage: Usage = field(default_factory=lambda: Usage(model_calls=1))
    asked: bool = False

    def seconds(self) -> float:
        return time.perf_counter() - self.started


class ModelsService:
    """Serves calls of sessions whose Profile is in one of the tenants' namespaces."""

    def __init__(
        self,
        routes: Routes,
        recorder: UsageRecorder,
        metrics: ModelsMetrics,
        *,
        tenants: Collection[str],
        call_seconds: float,
    ) -> None:
        self._routes = routes
        self._recorder = recorder
        self._metrics = metrics
        self._tenants = frozenset(tenants)
        self._call_seconds = call_seconds

    async def profile_of(self, claims: SessionClaims) -> ProfileSpec:
        """Return the Profile a token names. Raises HermesError FORBIDDEN, NOT_FOUND or UNAVAILABLE."""
        if claims.namespace not in self._tenants:
            raise HermesError(ErrorCode.FORBIDDEN, f"namespace {claims.namespace} is not one of this installation's tenants")
        profile = await self._routes.profiles.profile(claims.namespace, claims.profile)
        if profile is None:
            raise HermesError(ErrorCode.NOT_FOUND, f"there is no Profile {claims.profile} in namespace {claims.namespace}")
        return profile

    async def events(
        self, claims: SessionClaims, profile: ProfileSpec, request: ModelRequest
    ) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of one call. Never raises HermesError: it becomes the last event."""
        account = _Account()
        model = profile.model
        try:
            async with aclosing(self._provided(claims, profile, request, account)) as events:
                async for event in events:
                    if account.first is None and not isinstance(event, Finish):
                        account.first = account.seconds()
                    if isinstance(event, Finish):
                        account.outcome, account.usage = "ok", event.usage
                    yield event
        except HermesError as error:
            account.outcome = error.code.value
            yield ModelError(**error.body().model_dump())
        except Exception:  # the outermost loop of a call: a bug ends the stream in words, not in a cut
            log.exception("model.call.failed", sid=claims.sub, turn_id=request.turn_id)
            account.outcome = ErrorCode.INTERNAL.value
            yield ModelError(code=ErrorCode.INTERNAL, message="The models service failed.", retryable=True)
        finally:
            self._settle(claims, request, model.provider, model.name, account)

    async def _provided(
        self, claims: SessionClaims, profile: ProfileSpec, request: ModelRequest, account: _Account
    ) -> AsyncGenerator[ModelEvent, None]:
        target, provider = await self._routes.find(claims.namespace, profile)
        account.asked = True
        deadline = asyncio.get_running_loop().time() + self._call_seconds
        finished = False
        async with aclosing(provider.stream(request, target)) as events:
            while True:
                try:
                    async with asyncio.timeout_at(deadline):
                        event = await anext(events, None)
                except TimeoutError as error:
                    raise HermesError(
                        ErrorCode.TIMEOUT, f"The model took longer than {self._call_seconds:.0f} seconds.", retryable=True
                    ) from error
                if event is None:
                    break
                finished = finished or isinstance(event, Finish)
                yield event
        if not finished:
            raise HermesError(ErrorCode.PROVIDER_PROTOCOL, "The provider's stream ended too early.", retryable=True)

    def _settle(self, claims: SessionClaims, request: ModelRequest, provider: str, model: str, account: _Account) -> None:
        seconds = account.seconds()
        usage = account.usage
        self._metrics.calls.labels(provider, account.outcome).inc()
        self._metrics.duration.labels(provider).observe(seconds)
        if account.first is not None:
            self._metrics.first_token.labels(provider).observe(account.first)
        for kind in ("input", "output", "cached_input", "reasoning"):
            self._metrics.tokens.labels(provider, kind).inc(getattr(usage, f"{kind}_tokens"))
        log.info(
            "model.call",
            sid=claims.sub, turn_id=request.turn_id, step=request.step, provider=provider, model=model,
            outcome=account.outcome, milliseconds=round(seconds * 1000, 1),
            first_milliseconds=None if account.first is None else round(account.first * 1000, 1),
            **usage.model_dump(exclude={"model_calls"}),
        )  # fmt: skip
        if account.asked:
            self._recorder.put(
                RecordUsageRequest(
                    sid=claims.sub, epoch=claims.epoch, turn_id=request.turn_id, step=request.step,
                    call_id=uuid.uuid4().hex, provider=provider, model=model, usage=usage, outcome=account.outcome,
                    milliseconds=seconds * 1000,
                )
            )  # fmt: skip
