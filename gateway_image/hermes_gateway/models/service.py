"""One model call: budget, attempts, and exactly one `Finish` or `ModelError` at its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing

import structlog

from hermes_contracts.crd.profile import ProfileSpec
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.model_api import ModelError, ModelEvent, ModelInfo, ModelRequest, Purpose, SessionClaims
from hermes_gateway.models.attempts import Attempts, Call
from hermes_gateway.models.budgets import BudgetKeeper
from hermes_gateway.models.metrics import ModelsMetrics
from hermes_gateway.models.providers.errors import ProviderError
from hermes_gateway.models.routing import Routes

log = structlog.get_logger()


class ModelsService:
    """Serves calls of sessions whose Profile is in one of the tenants' namespaces."""

    def __init__(
        self,
        routes: Routes,
        attempts: Attempts,
        budgets: BudgetKeeper,
        metrics: ModelsMetrics,
        *,
        tenants: Collection[str],
        call_seconds: float,
    ) -> None:
        self._routes = routes
        self._attempts = attempts
        self._budgets = budgets
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

    def info(self, claims: SessionClaims, profile: ProfileSpec, purpose: Purpose, chosen: str = "") -> ModelInfo:
        """Return what is known of the model that serves a purpose now. Raises HermesError NOT_CONFIGURED."""
        return self._routes.info(claims.namespace, profile, purpose, chosen)

    async def events(
        self, claims: SessionClaims, profile: ProfileSpec, request: ModelRequest
    ) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of one call. Never raises HermesError: it becomes the last event."""
        deadline = asyncio.get_running_loop().time() + self._call_seconds
        try:
            await self._budgets.check(claims, profile)
            call = Call(claims, profile, request, deadline, self._call_seconds)
            async with aclosing(self._attempts.stream(call)) as events:
                async for event in events:
                    yield event
        except HermesError as error:
            self._metrics.failed.labels(error.code.value).inc()
            log.info("models.call_failed", sid=claims.sub, turn_id=request.turn_id, code=error.code.value)
            window = error.context_window if isinstance(error, ProviderError) else 0
            yield ModelError(**error.body().model_dump(), context_window=window)
        except Exception:  # the outermost loop of a call: a bug ends the stream in words, not in a cut
            log.exception("model.call.failed", sid=claims.sub, turn_id=request.turn_id)
            self._metrics.failed.labels(ErrorCode.INTERNAL.value).inc()
            yield ModelError(code=ErrorCode.INTERNAL, message="The models service failed.", retryable=True)
