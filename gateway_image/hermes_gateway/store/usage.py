"""What was used and spent: the ledger of every model call, failed and repeated ones included, and the sums over it.

The sums are kept at each insert, because budgets ask for them before every model call.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import LiteralString

from hermes_contracts.conversation import Usage
from hermes_contracts.store_api import (
    Empty,
    ProfileSpend,
    ProfileSpendRequest,
    ProfileSpends,
    RecordUsageRequest,
    SpentReply,
    SpentRequest,
)  # fmt: skip
from hermes_gateway.store.answers import storable
from hermes_gateway.store.database import Database, Row, Scope, Transaction
from hermes_service.rpc import Caller

_SHARDS = 8

USAGE_COLUMNS: LiteralString = (
    "input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens, "
    "model_calls, unpriced_calls, cost_nano_usd"
)
"""The columns of a `Usage`, in every table that has one."""
USAGE_VALUES: LiteralString = (
    "%(input_tokens)s, %(output_tokens)s, %(cached_input_tokens)s, %(cache_write_tokens)s, %(reasoning_tokens)s, "
    "%(model_calls)s, %(unpriced_calls)s, %(cost_nano_usd)s"
)
"""Their values, given `Usage.model_dump()`."""
ADD_USAGE: LiteralString = (
    "input_tokens = input_tokens + %(input_tokens)s, output_tokens = output_tokens + %(output_tokens)s, "
    "cached_input_tokens = cached_input_tokens + %(cached_input_tokens)s, "
    "cache_write_tokens = cache_write_tokens + %(cache_write_tokens)s, "
    "reasoning_tokens = reasoning_tokens + %(reasoning_tokens)s, model_calls = model_calls + %(model_calls)s, "
    "unpriced_calls = unpriced_calls + %(unpriced_calls)s, cost_nano_usd = cost_nano_usd + %(cost_nano_usd)s"
)
"""Assignments that add them to a row."""

SUM_USAGE: LiteralString = """
coalesce(sum(input_tokens), 0)::bigint as input_tokens, coalesce(sum(output_tokens), 0)::bigint as output_tokens,
coalesce(sum(cached_input_tokens), 0)::bigint as cached_input_tokens,
coalesce(sum(cache_write_tokens), 0)::bigint as cache_write_tokens,
coalesce(sum(reasoning_tokens), 0)::bigint as reasoning_tokens, coalesce(sum(model_calls), 0)::bigint as model_calls,
coalesce(sum(unpriced_calls), 0)::bigint as unpriced_calls, coalesce(sum(cost_nano_usd), 0)::bigint as cost_nano_usd
"""
"""Their sums."""
ADD_UP_USAGE: LiteralString = """
coalesce(sum(input_tokens), 0)::bigint + %(input_tokens)s as input_tokens,
coalesce(sum(output_tokens), 0)::bigint + %(output_tokens)s as output_tokens,
coalesce(sum(cached_input_tokens), 0)::bigint + %(cached_input_tokens)s as cached_input_tokens,
coalesce(sum(cache_write_tokens), 0)::bigint + %(cache_write_tokens)s as cache_write_tokens,
coalesce(sum(reasoning_tokens), 0)::bigint + %(reasoning_tokens)s as reasoning_tokens,
coalesce(sum(model_calls), 0)::bigint + %(model_calls)s as model_calls,
coalesce(sum(unpriced_calls), 0)::bigint + %(unpriced_calls)s as unpriced_calls,
coalesce(sum(cost_nano_usd), 0)::bigint + %(cost_nano_usd)s as cost_nano_usd
"""
"""Their sums and one more."""

# The session's tenant, from its own row: a purged one's from what is left of it, so that its money is counted too.
_TENANT = """
select namespace, profile, 1 as choice from sessions where sid = %(sid)s
union all select namespace, profile, 2 from tombstones where sid = %(sid)s and namespace <> ''
order by choice limit 1
"""
_ENTER: LiteralString = f"select set_config('hermes.task', 'spend:' || namespace, true) from ({_TENANT}) tenant"
_RECORD: LiteralString = f"""
with new as (
    insert into usage (sid, turn_id, step, call_id, epoch, provider, model, outcome, purpose, milliseconds, {USAGE_COLUMNS})
    values (%(sid)s, %(turn_id)s, %(step)s, %(call_id)s, %(epoch)s, %(provider)s, %(model)s, %(outcome)s, %(purpose)s,
        %(milliseconds)s, {USAGE_VALUES})
    on conflict do nothing returning sid
), of_session as (
    insert into session_spend (sid, nano_usd)
    select new.sid, %(cost_nano_usd)s from new join sessions using (sid) where %(cost_nano_usd)s > 0
    on conflict (sid) do update set nano_usd = session_spend.nano_usd + excluded.nano_usd
)
insert into profile_spend as p (namespace, profile, day, shard, {USAGE_COLUMNS})
select namespace, profile, (now() at time zone 'utc')::date, %(shard)s, {USAGE_VALUES} from new, ({_TENANT}) tenant
on conflict (namespace, profile, day, shard) do update set
    input_tokens = p.input_tokens + excluded.input_tokens, output_tokens = p.output_tokens + excluded.output_tokens,
    cached_input_tokens = p.cached_input_tokens + excluded.cached_input_tokens,
    cache_write_tokens = p.cache_write_tokens + excluded.cache_write_tokens,
    reasoning_tokens = p.reasoning_tokens + excluded.reasoning_tokens, model_calls = p.model_calls + excluded.model_calls,
    unpriced_calls = p.unpriced_calls + excluded.unpriced_calls, cost_nano_usd = p.cost_nano_usd + excluded.cost_nano_usd
"""
_OF_SESSION = "select nano_usd from session_spend where sid = %s"
_OF_PROFILES: LiteralString = f"""
select profile, day = (now() at time zone 'utc')::date as today, {SUM_USAGE} from profile_spend
where namespace = %s and profile = any(%s) and day >= date_trunc('month', now() at time zone 'utc')::date
group by profile, today
"""


def usage_of(row: Row) -> Usage:
    """Read a usage from a row."""
    return Usage(**{name: row[name] for name in Usage.model_fields})


def shard_of(sid: str) -> int:
    """Say which of a Profile's counters a session writes to."""
    return hashlib.sha256(sid.encode()).digest()[0] % _SHARDS


def spend_by_profile(rows: list[Row]) -> dict[str, ProfileSpend]:
    """Put together rows of a Profile: what is `today`'s and what the rest of the month's."""
    found: dict[str, ProfileSpend] = {}
    for row in rows:
        profile, usage = row["profile"], usage_of(row)
        before = found.get(profile, ProfileSpend(profile=profile, day=Usage(), month=Usage()))
        day = before.day + usage if row["today"] else before.day
        found[profile] = ProfileSpend(profile=profile, day=day, month=before.month + usage)
    return found


@dataclass(frozen=True)
class UsageLedger:
    """Handlers of `record_usage`, `spent` and `profile_spend`."""

    database: Database

    async def record(self, _: Caller, request: RecordUsageRequest) -> Empty:
        """Write one model call. Independent of epochs: what was spent was spent."""
        values: dict[str, object] = {
            "sid": request.sid,
            "turn_id": storable(request.turn_id[:100]),
            "step": request.step,
            "call_id": storable(request.call_id[:200]),
            "epoch": request.epoch,
            "provider": storable(request.provider[:200]),
            "model": storable(request.model[:200]),
            "outcome": storable(request.outcome[:200]),
            "purpose": storable(request.purpose[:64]),
            "milliseconds": request.milliseconds,
            "shard": shard_of(request.sid),
            **request.usage.model_dump(),
        }

        async def work(transaction: Transaction) -> Empty:
            await transaction.commit((_ENTER, {"sid": request.sid}), (_RECORD, values))
            return Empty()

        return await self.database.run(Scope(sid=request.sid), work)

    async def spent(self, _: Caller, request: SpentRequest) -> SpentReply:
        """Return what a session and its Profile have spent."""

        async def work(transaction: Transaction) -> SpentReply:
            session, rows = await transaction.commit(
                (_OF_SESSION, (request.sid,)), (_OF_PROFILES, (request.namespace, [request.profile]))
            )
            nothing = ProfileSpend(profile=request.profile, day=Usage(), month=Usage())
            spend = spend_by_profile(rows).get(request.profile, nothing)
            return SpentReply(
                session_nano_usd=session[0]["nano_usd"] if session else 0,
                profile_day_nano_usd=spend.day.cost_nano_usd,
                profile_month_nano_usd=spend.month.cost_nano_usd,
                profile_day_tokens=spend.day.input_tokens + spend.day.output_tokens,
            )

        return await self.database.run(Scope(sid=request.sid, task=f"spend:{request.namespace}"), work)

    async def by_profile(self, _: Caller, request: ProfileSpendRequest) -> ProfileSpends:
        """Return what Profiles of one namespace have spent."""

        async def work(transaction: Transaction) -> ProfileSpends:
            (rows,) = await transaction.commit((_OF_PROFILES, (request.namespace, list(request.profiles))))
            return ProfileSpends(profiles=tuple(spend_by_profile(rows).values()))

        return await self.database.run(Scope(task=f"spend:{request.namespace}"), work)
