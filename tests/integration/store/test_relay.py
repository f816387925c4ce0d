"""What the relay does when the bus refuses, and what it never does: let one subject hold up another."""

from __future__ import annotations

import asyncio
import time

import psycopg
from nats.js.api import StreamConfig

from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Role
from hermes_contracts.conversation import Message
from hermes_contracts.envelopes import Event, Outbound
from hermes_contracts.store_api import (
    APPEND,
    COMMIT,
    OPEN_TURN,
    REPORT,
    SUMMARIES,
    AgentState,
    AppendRequest,
    CommitRequest,
    OpenTurnRequest,
    ReportRequest,
    SessionIdsRequest,
)  # fmt: skip
from hermes_contracts.subjects import agent_store
from tests.integration.store.harness import StoreProcess, World, awake, eventually, new_session, wait_until


async def test_a_full_outbound_stream_does_not_hold_up_events(world: World) -> None:
    session = new_session()
    witness = await world.witness()
    events: list[Event] = []

    async def on_event(message: object) -> None:
        events.append(Event.model_validate_json(message.data))  # type: ignore[attr-defined]

    await witness.subscribe(subjects.event(session.sid), cb=on_event)
    agent = await world.agent(session.sid, await awake(world, session))
    jetstream = witness.jetstream()
    config: StreamConfig = (await jetstream.stream_info(subjects.OUT_STREAM)).config
    limit = config.max_msgs_per_subject
    await jetstream.update_stream(config.evolve(max_msgs_per_subject=1))
    waiting = "select subject from outbox where sid = %s and relayed_at is null"
    subject = subjects.outbound("webhook", session.sid)
    try:
        for number in range(3):
            request = OpenTurnRequest(inbound=session.inbound(f"u{number}"), ack_subject="a", stream_sequence=1)
            turn_id = (await agent.call(OPEN_TURN, request)).turn_id
            commit = CommitRequest(turn_id=turn_id, step=0, messages=(), outcome="done", reply=f"answer {number}")
            await agent.call(COMMIT, commit)
        await eventually(lambda: len(events) == 6, "events pass the outbound parts that wait")
        await eventually(lambda: world.rows(waiting, session.sid) == [(subject,)] * 2, "two parts wait")
    finally:
        await jetstream.update_stream(config.evolve(max_msgs_per_subject=limit))
    await eventually(lambda: world.rows(waiting, session.sid) == [], "parts go once there is room", 40)
    sequence = 0
    for number in range(3):
        stored = await jetstream.get_msg(subjects.OUT_STREAM, subject=subject, seq=sequence + 1, next=True)
        assert Outbound.model_validate_json(stored.data or b"").text == f"answer {number}"
        sequence = stored.seq or 0


async def test_a_session_of_another_replicas_rows_is_swept(world: World) -> None:
    session = new_session()
    agent = await world.agent(session.sid, await awake(world, session))
    request = OpenTurnRequest(inbound=session.inbound("u"), ack_subject="a", stream_sequence=1)
    turn_id = (await agent.call(OPEN_TURN, request)).turn_id
    world.rows_change(
        "insert into outbox (sid, turn_id, final, subject, payload, created_at) "
        "values (%s, %s, false, %s, '{}', now() - interval '5 seconds')",
        session.sid, turn_id, subjects.event(session.sid),
    )  # fmt: skip
    waiting = "select count(*) from outbox where sid = %s and relayed_at is null"
    await eventually(lambda: world.rows(waiting, session.sid) == [(0,)], "left rows are published")


async def test_a_session_is_relayed_by_one_process_at_a_time(world: World, shared_store: StoreProcess) -> None:
    session = new_session()
    agent = await world.agent(session.sid, await awake(world, session))
    waiting = "select count(*) from outbox where sid = %s and relayed_at is null"
    with psycopg.connect(world.postgres.admin(world.database)) as other:
        other.execute("select pg_advisory_xact_lock(hashtextextended(%s, 1))", (session.sid,))
        request = OpenTurnRequest(inbound=session.inbound("u"), ack_subject="a", stream_sequence=1)
        await agent.call(OPEN_TURN, request)
        swept = "hermes_store_outbox_waiting_messages 1.0"
        await asyncio.to_thread(wait_until, lambda: swept in shared_store.get("/metrics")[1], "the sweep saw the row")
        assert world.rows(waiting, session.sid) == [(1,)]
    await eventually(lambda: world.rows(waiting, session.sid) == [(0,)], "it goes when the other is done")


async def test_a_report_without_a_reply_subject_is_taken(world: World) -> None:
    session = new_session()
    epoch = await awake(world, session)
    witness = await world.witness()
    report = ReportRequest(state=AgentState.IDLE, pod="pod-1")
    await witness.publish(agent_store(session.sid, epoch, REPORT.name), report.model_dump_json().encode())
    state = "select state, pod from sessions where sid = %s"
    await eventually(lambda: world.rows(state, session.sid) == [("idle", "pod-1")], "the report is there")


async def test_the_operator_sees_activity(world: World) -> None:
    session = new_session()
    agent = await world.agent(session.sid, await awake(world, session))
    started = time.time()
    request = OpenTurnRequest(inbound=session.inbound("u"), ack_subject="a", stream_sequence=1)
    turn_id = (await agent.call(OPEN_TURN, request)).turn_id
    await agent.call(APPEND, AppendRequest(turn_id=turn_id, step=0, messages=(Message.user("x"),)))
    operator = await world.service(Role.OPERATOR)
    (summary,) = (await operator.call(SUMMARIES, SessionIdsRequest(sids=(session.sid,)))).sessions
    assert (summary.turns, summary.running_turns) == (1, 1)
    assert abs(summary.last_activity - started) < 10
