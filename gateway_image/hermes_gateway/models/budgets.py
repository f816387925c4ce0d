"""Spending limits: what the store knows, kept for a few seconds, and what this replica has spent since."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from decimal import Decimal

from hermes_contracts.crd.profile import Budgets, ProfileSpec
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.model_api import SessionClaims
from hermes_contracts.store_api import SPENT, SpentReply, SpentRequest
from hermes_gateway.models.health import Clock
from hermes_gateway.models.store import Store

KEEP_SECONDS = 5.0
_LIMIT = 2_000
_NANO = Decimal(1_000_000_000)


@dataclass(frozen=True)
class Spend:
    """What one call came to."""

    call_id: str
    namespace: str
    profile: str
    sid: str
    nano_usd: int
    tokens: int


@dataclass
class _Known:
    at: float
    reply: SpentReply
    session_nano_usd: int = 0
    profile_nano_usd: int = 0
    tokens: int = 0

    def add(self, spend: Spend, sid: str) -> None:
        self.profile_nano_usd += spend.nano_usd
        self.tokens += spend.tokens
        if spend.sid == sid:
            self.session_nano_usd += spend.nano_usd


def limits_money(budgets: Budgets) -> bool:
    """Tell whether a Profile limits money anywhere: then a model without a price cannot be counted."""
    return any(
        limit is not None
        for limit in (budgets.max_turn_usd, budgets.max_session_usd, budgets.max_day_usd, budgets.max_month_usd)
    )


def over(budgets: Budgets, spent: SpentReply) -> str | None:
    """Return the sentence for a limit that is reached, or None."""
    for limit, nano, words in (
        (budgets.max_session_usd, spent.session_nano_usd, "one session may spend"),
        (budgets.max_day_usd, spent.profile_day_nano_usd, "this agent may spend in a day (UTC)"),
        (budgets.max_month_usd, spent.profile_month_nano_usd, "this agent may spend in a month (UTC)"),
    ):
        if limit is not None and nano / _NANO >= Decimal(limit):
            return f"The budget is used up: ${nano / _NANO:.2f} of the ${Decimal(limit)} that {words}."
    tokens = budgets.max_day_tokens
    if tokens is not None and spent.profile_day_tokens >= tokens:
        used = f"{spent.profile_day_tokens:,} of the {tokens:,} tokens"
        return f"The budget is used up: {used} that this agent may use in a day (UTC)."
    return None


class BudgetKeeper:
    """Refuses calls whose budget is used up. Calls in flight at that moment run to their end."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: OrderedDict[tuple[str, str, str], _Known] = OrderedDict()
        self._underway: dict[str, Spend] = {}

    async def check(self, claims: SessionClaims, spec: ProfileSpec) -> None:
        """Raise HermesError BUDGET when a limit is reached, UNAVAILABLE when a limit is set and cannot be checked."""
        budgets = spec.budgets
        limits = (budgets.max_session_usd, budgets.max_day_usd, budgets.max_month_usd, budgets.max_day_tokens)
        if all(limit is None for limit in limits):
            return
        sentence = over(budgets, await self._spent(claims))
        if sentence is not None:
            raise HermesError(ErrorCode.BUDGET, sentence)

    def spent(self, spend: Spend) -> None:
        """Count a call that the store does not know yet."""
        self._underway[spend.call_id] = spend
        for (namespace, profile, sid), known in self._known.items():
            if (namespace, profile) == (spend.namespace, spend.profile):
                known.add(spend, sid)

    def recorded(self, call_id: str) -> None:
        """Note that the store knows a call now, or will never."""
        self._underway.pop(call_id, None)

    async def _spent(self, claims: SessionClaims) -> SpentReply:
        key = (claims.namespace, claims.profile, claims.sub)
        known = self._known.get(key)
        now = self._clock()
        if known is None or now - known.at > KEEP_SECONDS:
            known = await self._ask(claims, now)
            self._known[key] = known
            self._known.move_to_end(key)
            while len(self._known) > _LIMIT:
                self._known.popitem(last=False)
        reply = known.reply
        return SpentReply(
            session_nano_usd=reply.session_nano_usd + known.session_nano_usd,
            profile_day_nano_usd=reply.profile_day_nano_usd + known.profile_nano_usd,
            profile_month_nano_usd=reply.profile_month_nano_usd + known.profile_nano_usd,
            profile_day_tokens=reply.profile_day_tokens + known.tokens,
        )

    async def _ask(self, claims: SessionClaims, now: float) -> _Known:
        # Before the question: what is recorded meanwhile may count twice for some seconds, and never not at all.
        underway = list(self._underway.values())
        request = SpentRequest(sid=claims.sub, namespace=claims.namespace, profile=claims.profile)
        try:
            reply = await self._store.call(SPENT, request)
        except HermesError as error:
            raise HermesError(
                ErrorCode.UNAVAILABLE, "This agent has a budget, which cannot be checked now. Try again in a moment.",
                retryable=True,
            ) from error  # fmt: skip
        known = _Known(now, reply)
        for spend in {s.call_id: s for s in (*underway, *self._underway.values())}.values():
            if (spend.namespace, spend.profile) == (claims.namespace, claims.profile):
                known.add(spend, claims.sub)
        return known
