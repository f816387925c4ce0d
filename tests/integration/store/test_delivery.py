"""Parts of an answer go out one after the other, and a failure for good becomes visible."""

from __future__ import annotations

import pytest

from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Role
from hermes_contracts.envelopes import Event, Outbound
from hermes_contracts.store_api import (
    BEGIN_DELIVERY,
    COMMIT,
    FINISH_DELIVERY,
    OPEN_TURN,
    SUMMARIES,
    BeginDeliveryReply,
    BeginDeliveryRequest,
    CommitRequest,
    FinishDeliveryRequest,
    OpenTurnRequest,
    SessionIdsRequest,
    TurnState,
)  # fmt: skip
from hermes_service.rpc import StoreClient
from tests.integration.store.harness import Session, World, awake, eventually, new_session

LONG = "\n\n".join(f"{number} " + "x" * 60_000 for number in range(5))


async def answered(world: World, session: Session, reply: str) -> list[Outbound]:
    """Let an agent answer; returns the parts in the order in which the bus has them."""
    witness = await world.witness()
    parts: list[Outbound] = []

    async def on_part(message: object) -> None:
        parts.append(Outbound.model_validate_json(message.data))  # type: ignore[attr-defined]

    await witness.subscribe(subjects.outbound(session.route.key.channel, session.sid), cb=on_part)
    await witness.flush()
    agent = await world.agent(session.sid, await awake(world, session))
    request = OpenTurnRequest(inbound=session.inbound("u1"), ack_subject="a", stream_sequence=1)
    turn_id = (await agent.call(OPEN_TURN, request)).turn_id
    await agent.call(COMMIT, CommitRequest(turn_id=turn_id, step=0, messages=(), outcome="done", reply=reply))
    await eventually(lambda: bool(parts) and len(parts) == parts[0].parts, "all parts")
    return parts


async def begin(gateway: StoreClient, part: Outbound, holder: str = "g1") -> BeginDeliveryReply:
    return await gateway.call(BEGIN_DELIVERY, BeginDeliveryRequest(delivery_id=part.delivery_id, holder=holder))


async def finish(gateway: StoreClient, part: Outbound, outcome: str, holder: str = "g1", error: str = "") -> None:
    request = FinishDeliveryRequest(delivery_id=part.delivery_id, holder=holder, outcome=outcome, error=error)  # type: ignore[arg-type]
    await gateway.call(FINISH_DELIVERY, request)


async def test_parts_wait_for_the_part_before(world: World) -> None:
    parts = await answered(world, new_session(), LONG)
    assert len(parts) > 2
    assert "".join(part.text for part in parts) == LONG
    assert [part.part for part in parts] == list(range(1, len(parts) + 1))
    gateway = await world.service(Role.GATEWAY)
    assert (await begin(gateway, parts[1])).state == "waiting"
    first = await begin(gateway, parts[0])
    assert (first.proceed, first.attempts, first.uncertain) == (True, 1, False)
    assert not (await begin(gateway, parts[1])).proceed
    await finish(gateway, parts[0], "retry", error="429")
    assert (await begin(gateway, parts[0])).attempts == 2
    await finish(gateway, parts[0], "delivered")
    await finish(gateway, parts[0], "retry")
    assert (await begin(gateway, parts[0])).state == "delivered"
    assert (await begin(gateway, parts[1])).proceed


async def test_what_another_gateway_began_is_uncertain(world: World) -> None:
    (part,) = await answered(world, new_session(), "hi")
    gateway = await world.service(Role.GATEWAY)
    assert not (await begin(gateway, part, "g1")).uncertain
    repeated = await begin(gateway, part, "g1")
    assert (repeated.proceed, repeated.attempts, repeated.uncertain) == (True, 1, False)
    taken = await begin(gateway, part, "g2")
    assert (taken.proceed, taken.attempts, taken.uncertain) == (True, 2, True)
    await finish(gateway, part, "failed", "g1")
    assert (await begin(gateway, part, "g2")).state == "attempting", "only the present holder may give up"
    await finish(gateway, part, "delivered", "g1")
    assert (await begin(gateway, part, "g2")).state == "delivered", "what was delivered is true whoever says it"


@pytest.mark.parametrize("delivery_id", ["", "nonsense", "s.t.1", "a.b.c"])
async def test_unknown_ids_are_unknown(world: World, delivery_id: str) -> None:
    gateway = await world.service(Role.GATEWAY)
    request = BeginDeliveryRequest(delivery_id=delivery_id, holder="g")
    assert (await gateway.call(BEGIN_DELIVERY, request)).state == "unknown"
    await gateway.call(FINISH_DELIVERY, FinishDeliveryRequest(delivery_id=delivery_id, holder="g", outcome="failed"))


async def test_a_failure_for_good_ends_the_later_parts_and_is_told(world: World) -> None:
    session = new_session()
    parts = await answered(world, session, LONG)
    gateway, operator, witness = await world.service(Role.GATEWAY), await world.service(Role.OPERATOR), await world.witness()
    events: list[Event] = []

    async def on_event(message: object) -> None:
        events.append(Event.model_validate_json(message.data))  # type: ignore[attr-defined]

    await witness.subscribe(subjects.event(session.sid), cb=on_event)
    await witness.flush()
    await begin(gateway, parts[0])
    for _ in range(2):
        await finish(gateway, parts[0], "failed", error="403 forbidden")
    assert (await begin(gateway, parts[1])).state == "failed"
    await eventually(lambda: len(events) == 1, "the event")
    assert (events[0].type, events[0].update_id) == ("delivery.failed", "u1")
    assert events[0].data == {"part": 1, "attempts": 1, "error": "403 forbidden"}
    (summary,) = (await operator.call(SUMMARIES, SessionIdsRequest(sids=(session.sid,)))).sessions
    assert (summary.failed_deliveries, summary.last_error) == (1, "403 forbidden")


async def test_the_answer_of_a_settled_turn_goes_again(world: World) -> None:
    session = new_session()
    (part,) = await answered(world, session, "hi")
    agent = await world.agent(session.sid, 1)
    waiting = "select count(*) from outbox where sid = %s and relayed_at is null"
    await eventually(lambda: world.rows(waiting, session.sid) == [(0,)], "all is marked as relayed")
    # As if the bus had lost what it acknowledged: its own deduplication must not hide that the row goes again.
    witness = await world.witness()
    await witness.jetstream().purge_stream(subjects.OUT_STREAM, subject=subjects.outbound("webhook", session.sid))
    relayed = world.rows("select max(relayed_at) from outbox where sid = %s and final", session.sid)
    again = OpenTurnRequest(inbound=session.inbound("u1"), ack_subject="b", stream_sequence=1)
    assert (await agent.call(OPEN_TURN, again)).state is TurnState.DONE
    later = "select count(*) from outbox where sid = %s and final and relayed_at > %s"
    await eventually(lambda: world.rows(later, session.sid, relayed[0][0]) == [(2,)], "event and part are relayed again")
    assert part.text == "hi"


async def test_api_answers_make_no_deliveries(world: World) -> None:
    session = new_session(channel="api")
    agent = await world.agent(session.sid, await awake(world, session))
    request = OpenTurnRequest(inbound=session.inbound("u1"), ack_subject="a", stream_sequence=1)
    turn_id = (await agent.call(OPEN_TURN, request)).turn_id
    await agent.call(
        COMMIT, CommitRequest(turn_id=turn_id, step=0, messages=(), outcome="failed", reason="model_error", reply="x")
    )
    assert world.rows("select count(*) from deliveries where sid = %s", session.sid) == [(0,)]
    assert world.rows("select last_error from sessions where sid = %s", session.sid) == [("model_error",)]
