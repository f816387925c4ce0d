"""A scheduled run's answer goes where its job says, each place on its own, and the operator is told how runs ended."""

from __future__ import annotations

import pytest

from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Role
from hermes_contracts.envelopes import CronRun, Inbound, Outbound, Route, Target
from hermes_contracts.names import RoutingKey, conversation_id, session_id
from hermes_contracts.store_api import (
    BURY,
    COMMIT,
    CRON_TURNS,
    OPEN_TURN,
    BuryRequest,
    CommitRequest,
    CronTurns,
    CronTurnsRequest,
    OpenTurnRequest,
)
from tests.integration.store.harness import Session, World, awake, eventually, new_session
from tests.integration.store.test_delivery import begin, finish

JOB = "3f1c9d5e-0000-4000-8000-000000000001"
REPORTS = Target(channel="webhook", account="reports", chat="nightly")
ALERTS = Target(channel="webhook", account="alerts", chat="nightly")


def run_session(run: str, job: str = JOB) -> Session:
    key = RoutingKey(channel="cron", account=job, chat=run)
    sid = session_id("namespace-uid", "default", key)
    route = Route(sid=sid, namespace="team", profile="default", owner="cron:team/nightly", key=key)
    return Session(sid, route, conversation_id(sid))


def message(session: Session, run: str, *deliver: Target, job: str = JOB) -> Inbound:
    return Inbound(
        sid=session.sid,
        conversation=conversation_id(session.sid),
        channel="cron",
        account=job,
        update_id=run,
        owner=session.route.owner,
        text="report",
        received_at=0,
        run=CronRun(job="nightly", run=run, deliver=deliver),
    )


async def outbound_of(world: World, session: Session) -> list[Outbound]:
    witness, found = await world.witness(), list[Outbound]()

    async def on_part(received: object) -> None:
        found.append(Outbound.model_validate_json(received.data))  # type: ignore[attr-defined]

    await witness.subscribe(subjects.outbound("*", session.sid), cb=on_part)
    await witness.flush()
    return found


async def answer(world: World, session: Session, inbound: Inbound, **commit: object) -> None:
    agent = await world.agent(session.sid, await awake(world, session))
    opened = await agent.call(OPEN_TURN, OpenTurnRequest(inbound=inbound, ack_subject="a", stream_sequence=1))
    fields = {"outcome": "done", "reason": "stop", "reply": "all is well", **commit}
    await agent.call(COMMIT, CommitRequest.model_validate({"turn_id": opened.turn_id, "step": 0, "messages": (), **fields}))


async def told(world: World, *runs: str, job: str = JOB) -> CronTurns:
    operator = await world.service(Role.OPERATOR)
    return await operator.call(CRON_TURNS, CronTurnsRequest(job_uid=job, runs=runs))


async def test_each_target_gets_the_answer_and_a_failing_one_holds_up_no_other(world: World) -> None:
    session = run_session("r1")
    found = await outbound_of(world, session)
    await answer(world, session, message(session, "r1", REPORTS, ALERTS, REPORTS))
    await eventually(lambda: len(found) == 2, "both targets, each once")
    reports, alerts = sorted(found, key=lambda part: part.target)
    assert [(p.account, p.chat, p.target, p.parts) for p in (reports, alerts)] == [
        ("reports", "nightly", 0, 1),
        ("alerts", "nightly", 1, 1),
    ]
    assert {part.namespace for part in found} == {session.route.namespace}
    gateway = await world.service(Role.GATEWAY)
    assert (await begin(gateway, reports)).proceed
    await finish(gateway, reports, "failed", error="404")
    assert (await begin(gateway, alerts)).proceed
    await finish(gateway, alerts, "delivered")
    [turn] = (await told(world, "r1")).turns
    assert (turn.state, turn.parts, turn.delivered, turn.undeliverable) == ("done", 2, 1, 1)


async def test_silence_is_kept_and_sent_to_nobody_and_only_a_run_may_be_silent(world: World) -> None:
    session = run_session("r2")
    found = await outbound_of(world, session)
    await answer(world, session, message(session, "r2", REPORTS), silent=True, reason="silent", reply="[SILENT]")
    person = new_session()
    theirs = await outbound_of(world, person)
    await answer(world, person, person.inbound("u1"), silent=True)
    await eventually(lambda: len(theirs) == 1, "a person is always answered")
    assert found == []
    assert (await told(world, "r2")).turns[0].parts == 0


async def test_a_run_in_a_conversation_answers_there(world: World) -> None:
    chat = new_session()
    found = await outbound_of(world, chat)
    await answer(world, chat, message(chat, "r3"))
    await eventually(lambda: len(found) == 1, "the chat is answered")
    assert (found[0].channel, found[0].account, found[0].chat) == (
        chat.route.key.channel,
        chat.route.key.account,
        chat.route.key.chat,
    )


async def test_the_operator_is_told_counts_and_the_last_answer_of_one_job_only(world: World) -> None:
    job, other = "3f1c9d5e-0000-4000-8000-000000000002", "3f1c9d5e-0000-4000-8000-000000000003"
    for run, reply, outcome, reason in (
        ("a", "first", "done", "stop"),
        ("b", "second" + "x" * 20_000, "done", "stop"),
        ("c", "[SILENT]", "done", "silent"),
        ("d", "it broke", "failed", "script_failed"),
    ):
        session = run_session(run, job)
        await answer(world, session, message(session, run, job=job), reply=reply, outcome=outcome, reason=reason)
    found = await told(world, "a", "d", "never", job=job)
    assert {turn.run: turn.state for turn in found.turns} == {"a": "done", "d": "failed"}
    assert (found.succeeded, found.failed) == (3, 1)
    assert found.answer.startswith("second")
    assert len(found.answer) == 8_000
    assert await told(world, "a", job=other) == CronTurns(turns=(), succeeded=0, failed=0)


@pytest.mark.parametrize(("reason", "sent"), [("profile_gone", 1), ("run_deleted", 0)])
async def test_a_run_that_is_given_up_is_reported_unless_somebody_deleted_it(world: World, reason: str, sent: int) -> None:
    run = f"r-{reason}"
    session = run_session(run)
    await awake(world, session)
    found = await outbound_of(world, session)
    operator = await world.service(Role.OPERATOR)
    await operator.call(BURY, BuryRequest(inbound=message(session, run, REPORTS), reason=reason))
    [turn] = (await told(world, run)).turns
    assert (turn.state, turn.parts) == ("dead", sent)
    if sent:
        await eventually(lambda: len(found) == 1, "the target is told")
    assert len(found) == sent
