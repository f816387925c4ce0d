"""What was spent, by session and by Profile: every call counts once, purged sessions too, tenants apart."""

from __future__ import annotations

import asyncio
import secrets

from hermes_contracts.bus_permissions import Role
from hermes_contracts.conversation import Usage
from hermes_contracts.store_api import (
    PROFILE_SPEND,
    PURGE,
    RAISE_EPOCH,
    RECORD_USAGE,
    SPENT,
    SUMMARIES,
    Empty,
    ProfileSpendRequest,
    RaiseEpochRequest,
    RecordUsageRequest,
    SessionIdsRequest,
    SidRequest,
    SpentReply,
    SpentRequest,
)  # fmt: skip
from hermes_service.rpc import StoreClient
from tests.integration.store.harness import Session, World, awake, new_session

USAGE = Usage(
    input_tokens=100, output_tokens=10, cached_input_tokens=40, cache_write_tokens=5, reasoning_tokens=3, model_calls=1,
    cost_nano_usd=7_000,
)  # fmt: skip


def a_session(namespace: str, profile: str) -> Session:
    session = new_session()
    route = session.route.model_copy(update={"namespace": namespace, "profile": profile})
    return Session(session.sid, route, session.conversation)


def record(session: Session, call_id: str, usage: Usage = USAGE) -> RecordUsageRequest:
    return RecordUsageRequest(
        sid=session.sid, epoch=1, turn_id="t", step=0, call_id=call_id, provider="scripted", model="m", usage=usage,
        outcome="ok", milliseconds=3.0, purpose="compression",
    )  # fmt: skip


async def spent(models: StoreClient, session: Session) -> SpentReply:
    route = session.route
    return await models.call(SPENT, SpentRequest(sid=session.sid, namespace=route.namespace, profile=route.profile))


async def test_calls_count_once_by_session_profile_and_tenant(world: World) -> None:
    team, other = f"team-{secrets.token_hex(4)}", f"other-{secrets.token_hex(4)}"
    first, second, coder, foreign = (
        a_session(team, "writer"),
        a_session(team, "writer"),
        a_session(team, "coder"),
        a_session(other, "writer"),
    )
    for session in (first, second, coder, foreign):
        await awake(world, session)
    models, operator = await world.service(Role.MODELS), await world.service(Role.OPERATOR)
    assert await spent(models, first) == SpentReply(
        session_nano_usd=0, profile_day_nano_usd=0, profile_month_nano_usd=0, profile_day_tokens=0
    )
    calls = [record(session, f"{n}") for session in (first, second) for n in range(5)]
    await asyncio.gather(*(models.call(RECORD_USAGE, call) for call in calls * 2))
    await models.call(RECORD_USAGE, record(coder, "1", Usage(model_calls=1, unpriced_calls=1, input_tokens=9)))
    await models.call(RECORD_USAGE, record(foreign, "1"))
    assert await spent(models, first) == SpentReply(
        session_nano_usd=35_000, profile_day_nano_usd=70_000, profile_month_nano_usd=70_000, profile_day_tokens=1100
    )
    assert (await spent(models, foreign)).profile_day_nano_usd == 7_000
    assert world.rows("select distinct purpose from usage where sid = %s", first.sid) == [("compression",)]

    reply = await operator.call(PROFILE_SPEND, ProfileSpendRequest(namespace=team, profiles=("writer", "coder", "idle")))
    spends = {spend.profile: spend for spend in reply.profiles}
    assert set(spends) == {"writer", "coder"}
    whole = Usage(**{name: count * 10 for name, count in USAGE.model_dump().items()})
    assert spends["writer"].day == spends["writer"].month == whole
    assert spends["coder"].day.unpriced_calls == 1


async def test_days_and_months_end(world: World) -> None:
    session = a_session(f"team-{secrets.token_hex(4)}", "writer")
    await awake(world, session)
    models, operator = await world.service(Role.MODELS), await world.service(Role.OPERATOR)
    await models.call(RECORD_USAGE, record(session, "1"))
    namespace = session.route.namespace
    month_start = "date_trunc('month', now() at time zone 'utc')::date"
    for day, shard in ((month_start, 100), (f"{month_start} - 1", 101)):
        world.rows_change(
            f"insert into profile_spend select namespace, profile, {day}, {shard}, 0, 0, 0, 0, 0, 1, 0, 500 "
            "from profile_spend where namespace = %s limit 1",
            namespace,
        )
    [(first_of_month,)] = world.rows(f"select {month_start} = (now() at time zone 'utc')::date")
    reply = await spent(models, session)
    assert reply.profile_month_nano_usd == 7_500
    assert reply.profile_day_nano_usd == (7_500 if first_of_month else 7_000)
    (spend,) = (await operator.call(PROFILE_SPEND, ProfileSpendRequest(namespace=namespace, profiles=("writer",)))).profiles
    assert spend.month.model_calls == 2


async def test_deleting_a_session_does_not_give_its_money_back(world: World) -> None:
    session = a_session(f"team-{secrets.token_hex(4)}", "writer")
    await awake(world, session)
    models, operator = await world.service(Role.MODELS), await world.service(Role.OPERATOR)
    await models.call(RECORD_USAGE, record(session, "1"))
    assert await operator.call(PURGE, SidRequest(sid=session.sid)) == Empty()
    await models.call(RECORD_USAGE, record(session, "2"))
    reply = await spent(models, session)
    assert (reply.session_nano_usd, reply.profile_day_nano_usd) == (0, 14_000)
    await operator.call(RAISE_EPOCH, RaiseEpochRequest(route=session.route, expected=0))
    await models.call(RECORD_USAGE, record(session, "3"))
    assert (await spent(models, session)).session_nano_usd == 7_000
    (summary,) = (await operator.call(SUMMARIES, SessionIdsRequest(sids=(session.sid,)))).sessions
    assert summary.usage.cost_nano_usd == 0, "the session's own usage is what its agent wrote"
