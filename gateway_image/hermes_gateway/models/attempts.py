"""One call over keys, waits and models: every further attempt is announced before it is waited for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

import structlog

from hermes_contracts.crd.profile import ProfileSpec
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.model_api import ModelEvent, ModelRequest, Restart, SessionClaims
from hermes_gateway.models.accounts import Account, Accounts
from hermes_gateway.models.metrics import ModelsMetrics
from hermes_gateway.models.pictures import Pictures, image_ids
from hermes_gateway.models.provider_secret import not_configured
from hermes_gateway.models.providers.errors import ProviderError, Reason, Remedy
from hermes_gateway.models.providers.remedies import repaired, without_images
from hermes_gateway.models.retry import Decision, RetryPolicy, Step, decide, hints_of
from hermes_gateway.models.routing import Candidate, Lease, Routes, Tried
from hermes_gateway.models.target import Target

log = structlog.get_logger()

_REPAIR = "repair"


@dataclass(frozen=True)
class Call:
    """What an agent asked for. `deadline` is of the event loop's clock."""

    claims: SessionClaims
    spec: ProfileSpec
    request: ModelRequest
    deadline: float
    seconds: float


@dataclass
class _Try:
    """What happened at one candidate so far, and the call as it is sent there."""

    request: ModelRequest
    keys: Tried = field(default_factory=Tried)
    remedies: set[Remedy] = field(default_factory=set)
    without_effort: bool = False
    waited: int = 1
    asked: Target | None = None
    lease: Lease | None = None


class OutOfTime(HermesError):
    """The whole call took too long: nothing is tried after it."""


class Attempts:
    """Runs calls. `sleep` and `rng` are for tests."""

    def __init__(
        self,
        routes: Routes,
        accounts: Accounts,
        pictures: Pictures,
        metrics: ModelsMetrics,
        *,
        policy: RetryPolicy,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self._routes = routes
        self._accounts = accounts
        self._pictures = pictures
        self._metrics = metrics
        self._policy = policy
        self._sleep = sleep
        self._random = rng or random.Random()

    async def stream(self, call: Call) -> AsyncGenerator[ModelEvent, None]:
        """Yield events, `Finish` last. Raises HermesError: the most telling failure, when nobody could answer."""
        request = call.request
        choice = self._routes.choose(call.claims.namespace, call.spec, request.purpose, request.passed_over, request.model)
        failures: list[tuple[str, HermesError]] = [(place.field, error) for place, error in choice.problems]
        for field_name, error in failures:
            log.warning("models.not_configured", sid=call.claims.sub, field=field_name, reason=error.message)
        number = 1
        for index, candidate in enumerate(choice.candidates):
            state = _Try(call.request)
            others = choice.candidates[index + 1 :]
            while True:
                try:
                    async with aclosing(self._once(call, candidate, state, number)) as events:
                        async for event in events:
                            yield event
                    self._routes.health.succeeded(candidate.health_key)
                    return
                except OutOfTime:
                    raise
                except HermesError as error:
                    failure = error
                step, following = self._after(call, candidate, state, failure, bool(others))
                if step == Step.END or step == Step.FALL_BACK:
                    failures.append((candidate.route.place.field, failure))
                    self._cool(candidate, state, failure)
                if step == Step.END:
                    raise telling(failures, failure)
                chosen = others[0] if step == Step.FALL_BACK else candidate
                if state.asked is not None or step != Step.FALL_BACK:
                    number += 1
                    yield _restart(failure, number, following.wait_seconds, chosen)
                await self._wait(call, following.wait_seconds, failure)
                if step == Step.FALL_BACK:
                    break
        raise telling(failures, failures[-1][1] if failures else not_configured("The Profile names no other model."))

    async def _once(self, call: Call, candidate: Candidate, state: _Try, number: int) -> AsyncGenerator[ModelEvent, None]:
        """Make one attempt."""
        state.asked = state.lease = None
        async with _Until(call):
            lease = state.lease = await self._routes.lease(candidate, state.keys)
            target = lease.target
            if state.without_effort:
                target = replace(target, effort="Default")
            request, media = state.request, {}
            if images := image_ids(request):
                if target.known.vision:
                    media = await self._pictures.get(call.claims.sub, images)
                else:
                    request = without_images(request, await self._pictures.descriptions(call.claims.sub, images))
        state.asked = target
        account = Account(candidate, number)
        try:
            with self._routes.in_use(lease):
                async with aclosing(lease.provider.stream(request, target, media)) as events:
                    while True:
                        async with _Until(call):
                            event = await anext(events, None)
                        if event is None:
                            break
                        yield account.saw(event)
            if account.outcome != "ok":
                raise ProviderError(Reason.CUT)
            self._routes.keys.succeeded(lease.pool, lease.key)
        except HermesError as error:
            account.outcome = error.code.value
            raise
        finally:
            self._accounts.settle(call.claims, call.request, account)

    def _after(
        self, call: Call, candidate: Candidate, state: _Try, failure: HermesError, others: bool
    ) -> tuple[str, Decision]:
        """Take note of a failure and decide what follows it."""
        lease = state.lease
        following, step = Decision(Step.END), ""
        if self._repair(state, failure):
            step, following = _REPAIR, Decision(Step.WAIT)
        else:
            spare = self._set_key_aside(candidate, state, failure)
            following = decide(
                failure, self._policy, attempts=state.waited, other_keys=spare, other_models=others,
                random=self._random.random(),
            )  # fmt: skip
            step = following.step.value
            state.waited += following.step is Step.WAIT
        log.warning(
            "models.attempt_failed",
            sid=call.claims.sub, turn_id=call.request.turn_id, provider=candidate.route.provider,
            model=candidate.route.model, field=candidate.route.place.field, code=failure.code.value,
            reason=failure.reason.value if isinstance(failure, ProviderError) else None, message=failure.message,
            asked=state.asked is not None, login=bool(lease and lease.login), next=step,
            wait_seconds=round(following.wait_seconds, 2),
        )  # fmt: skip
        if step != Step.END:
            self._metrics.retries.labels(candidate.route.provider, failure.code.value, step).inc()
        return step, following

    def _repair(self, state: _Try, failure: HermesError) -> bool:
        """Change the call as the provider's complaint asks for, each way once."""
        if not isinstance(failure, ProviderError) or state.asked is None:
            return False
        remedy = failure.hints.remedy
        if remedy is None or remedy in state.remedies:
            return False
        state.remedies.add(remedy)
        found = repaired(state.request, state.asked, failure)
        if found is None:
            return False
        state.request = found[0]
        state.without_effort = state.without_effort or found[1].effort != state.asked.effort
        return True

    def _set_key_aside(self, candidate: Candidate, state: _Try, failure: HermesError) -> bool:
        """Note what a failure says of the key. Returns whether another one can be used at once."""
        lease = state.lease
        if lease is None or not lease.pool or not hints_of(failure).should_rotate_credential:
            return False
        if lease.login:
            # Only a refused token is a matter of age; other failures are the account's, whatever token it shows.
            renewable = lease.spare_keys and failure.code is ErrorCode.AUTH
            state.keys.rejected_token = lease.key if renewable else state.keys.rejected_token
            return renewable
        state.keys.keys.add(lease.key)
        if self._routes.keys.failed(lease.pool, lease.key, failure, sole=lease.sole_key):
            self._metrics.cooldowns.labels(candidate.route.provider, "key").inc()
        return lease.spare_keys

    def _cool(self, candidate: Candidate, state: _Try, failure: HermesError) -> None:
        """Set a model aside: at least until one of its keys may work again, if it is for them that it failed."""
        hints, lease = hints_of(failure), state.lease
        if not hints.should_fallback:
            return
        keys_matter = lease is not None and hints.should_rotate_credential
        at_least = self._routes.keys.soonest(lease.pool, lease.keys) if lease is not None and keys_matter else 0.0
        if self._routes.health.failed(candidate.health_key, failure, at_least):
            self._metrics.cooldowns.labels(candidate.route.provider, "model").inc()

    async def _wait(self, call: Call, seconds: float, failure: HermesError) -> None:
        if asyncio.get_running_loop().time() + seconds > call.deadline:
            raise failure
        if seconds > 0:
            await self._sleep(seconds)


def telling(failures: list[tuple[str, HermesError]], last: HermesError) -> HermesError:
    """Return the failure to tell of: one that the agent must act on, else the main model's, else the last one."""
    own = [error for field_name, error in failures if field_name == "model"]
    if hints_of(last).should_compress or not own:
        return last
    error = own[-1]
    if len(failures) == 1:
        return error
    return HermesError(
        error.code, f"{error.message} No other model could answer either.",
        retryable=error.retryable, retry_after_seconds=error.retry_after_seconds,
    )  # fmt: skip


def _restart(failure: HermesError, number: int, wait_seconds: float, chosen: Candidate) -> Restart:
    return Restart(
        code=failure.code, message=failure.message, attempt=number, wait_seconds=round(wait_seconds, 3),
        provider=chosen.route.provider, model=chosen.route.model,
    )  # fmt: skip


class _Until:
    """Bounds what is waited for by the whole call's deadline."""

    def __init__(self, call: Call) -> None:
        self._seconds = call.seconds
        self._timeout = asyncio.timeout_at(call.deadline)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, *problem: object) -> None:
        try:
            await self._timeout.__aexit__(*problem)  # type: ignore[arg-type]
        except TimeoutError as error:
            raise OutOfTime(
                ErrorCode.TIMEOUT, f"The model took longer than {self._seconds:.0f} seconds.", retryable=True
            ) from error
