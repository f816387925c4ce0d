"""One life at a time: epochs fence, lives count, five deaths are enough."""

from __future__ import annotations

import asyncio
import json

import pytest

from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Role
from hermes_contracts.conversation import Message
from hermes_contracts.envelopes import Event
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    APPEND,
    BURY,
    COMMIT,
    FREEZE_PROMPT,
    LOAD,
    OPEN_TURN,
    RAISE_EPOCH,
    REPORT,
    SUMMARIES,
    TAKE_COMMANDS,
    AgentState,
    AppendRequest,
    BuryRequest,
    CommitRequest,
    Empty,
    FreezePromptRequest,
    FrozenPrompt,
    JournalEntry,
    LoadRequest,
    OpenTurnReply,
    OpenTurnRequest,
    RaiseEpochRequest,
    ReportRequest,
    SessionIdsRequest,
    TurnState,
)  # fmt: skip
from hermes_gateway.store.rules import GIVEN_UP, MAX_ATTEMPTS
from hermes_service.rpc import StoreClient
from tests.integration.store.harness import Session, World, awake, eventually, new_session


def opening(session: Session, update_id: str = "u", ack: str = "ack") -> OpenTurnRequest:
    return OpenTurnRequest(inbound=session.inbound(update_id), ack_subject=ack, stream_sequence=1)


async def open_turn(agent: StoreClient, session: Session, update_id: str = "u", ack: str = "ack") -> OpenTurnReply:
    return await agent.call(OPEN_TURN, opening(session, update_id, ack))


async def refused(call: object) -> ErrorCode:
    with pytest.raises(HermesError) as caught:
        await call  # type: ignore[misc]
    return caught.value.code


async def test_raise_is_compare_and_set(world: World) -> None:
    session = new_session()
    operator = await world.service(Role.OPERATOR)

    async def attempt() -> int | ErrorCode:
        try:
            return (await operator.call(RAISE_EPOCH, RaiseEpochRequest(route=session.route, expected=0))).epoch
        except HermesError as error:
            assert "current epoch is 1" in error.message
            return error.code

    results = await asyncio.gather(*(attempt() for _ in range(8)))
    assert sorted(map(str, results)) == ["1", *["conflict"] * 7]
    raised = await operator.call(RAISE_EPOCH, RaiseEpochRequest(route=session.route, expected=1))
    assert raised.epoch == 2
    (summary,) = (await operator.call(SUMMARIES, SessionIdsRequest(sids=(session.sid, new_session().sid)))).sessions
    assert (summary.epoch, summary.turns) == (2, 0)
    stranger = RaiseEpochRequest(route=new_session().route, expected=3)
    assert await refused(operator.call(RAISE_EPOCH, stranger)) is ErrorCode.CONFLICT


async def test_an_older_epoch_can_do_nothing(world: World) -> None:
    session = new_session()
    old = await world.agent(session.sid, await awake(world, session))
    opened = await open_turn(old, session)
    append = AppendRequest(turn_id=opened.turn_id, step=0, messages=(Message.user("hello"),))
    await old.call(APPEND, append)
    await awake(world, session, expected=1)
    prompt = FrozenPrompt(system="x", tools=())
    calls = [
        (OPEN_TURN, opening(session)),
        (APPEND, append),
        (APPEND, append.model_copy(update={"step": 1})),
        (COMMIT, CommitRequest(turn_id=opened.turn_id, step=1, messages=(), outcome="done", reply="late")),
        (LOAD, LoadRequest(conversation=session.conversation)),
        (FREEZE_PROMPT, FreezePromptRequest(conversation=session.conversation, prompt=prompt)),
        (REPORT, ReportRequest(state=AgentState.BUSY, pod="old")),
        (TAKE_COMMANDS, Empty()),
    ]
    for method, request in calls:
        assert await refused(old.call(method, request)) is ErrorCode.FENCED, method.name  # type: ignore[arg-type]
    assert world.rows("select state, reply from turns where sid = %s", session.sid) == [("running", "")]


async def test_a_repeated_write_answers_as_the_first(world: World) -> None:
    session = new_session()
    agent = await world.agent(session.sid, await awake(world, session))
    first = await open_turn(agent, session)
    assert await open_turn(agent, session) == first
    append = AppendRequest(turn_id=first.turn_id, step=0, messages=(Message.user("a"), Message.assistant("b")))
    replies = await asyncio.gather(*(agent.call(APPEND, append) for _ in range(6)))
    assert {reply.sequence for reply in replies} == {2}
    commit = CommitRequest(turn_id=first.turn_id, step=1, messages=(Message.assistant("c"),), outcome="done", reply="c")
    await asyncio.gather(*(agent.call(COMMIT, commit) for _ in range(6)))
    page = await agent.call(LOAD, LoadRequest(conversation=session.conversation))
    assert [stored.message.text() for stored in page.messages] == ["a", "b", "c"]
    assert world.rows("select count(*) from outbox where sid = %s", session.sid) == [(3,)]
    assert world.rows("select turns, last_sequence from sessions where sid = %s", session.sid) == [(1, 3)]


async def test_a_commit_at_an_appended_step_is_not_lost_silently(world: World) -> None:
    session = new_session()
    agent = await world.agent(session.sid, await awake(world, session))
    opened = await open_turn(agent, session)
    await agent.call(APPEND, AppendRequest(turn_id=opened.turn_id, step=0, messages=(Message.user("a"),)))
    commit = CommitRequest(turn_id=opened.turn_id, step=0, messages=(), outcome="done", reply="c")
    assert await refused(agent.call(COMMIT, commit)) is ErrorCode.CONFLICT


async def test_the_next_life_resumes_from_the_journal(world: World) -> None:
    session = new_session()
    agent = await world.agent(session.sid, await awake(world, session))
    opened = await open_turn(agent, session, ack="ack-1")
    started = [JournalEntry(call_id=name, tool="terminal", state="started") for name in ("a", "b")]
    finished = JournalEntry(call_id="a", tool="terminal", state="finished")
    await agent.call(APPEND, AppendRequest(turn_id=opened.turn_id, step=0, messages=(), journal=tuple(started)))
    await agent.call(APPEND, AppendRequest(turn_id=opened.turn_id, step=1, messages=(), journal=(finished,)))
    again = await agent.call(REPORT, ReportRequest(state=AgentState.READY, pod="pod"))
    assert again.interrupted_acks == ("ack-1",)
    resumed = await open_turn(agent, session, ack="ack-2")
    assert (resumed.attempt, resumed.next_step) == (2, 2)
    assert [(entry.call_id, entry.state) for entry in resumed.journal] == [("a", "finished"), ("b", "started")]
    later = await world.agent(session.sid, await awake(world, session, expected=1))
    assert (await later.call(REPORT, ReportRequest(state=AgentState.READY, pod="pod"))).interrupted_acks == ()
    assert (await open_turn(later, session, ack="ack-3")).attempt == 3


async def test_handing_back_is_no_attempt(world: World) -> None:
    session = new_session()
    epoch = await awake(world, session)
    for _ in range(MAX_ATTEMPTS + 2):
        agent = await world.agent(session.sid, epoch)
        assert (await open_turn(agent, session, ack=f"ack-{epoch}")).attempt == 1
        await agent.call(REPORT, ReportRequest(state=AgentState.DRAINED, pod="pod"))
        epoch = await awake(world, session, expected=epoch)


async def test_too_many_deaths_end_in_a_sentence_and_a_dead_letter(world: World) -> None:
    session = new_session()
    witness = await world.witness()
    letters: list[dict[str, object]] = []
    events: list[Event] = []

    async def on_letter(message: object) -> None:
        letters.append(json.loads(message.data))  # type: ignore[attr-defined]

    async def on_event(message: object) -> None:
        events.append(Event.model_validate_json(message.data))  # type: ignore[attr-defined]

    await witness.subscribe(subjects.dead(session.sid), cb=on_letter)
    await witness.subscribe(subjects.event(session.sid), cb=on_event)
    epoch = await awake(world, session)
    agent = await world.agent(session.sid, epoch)
    for number in range(1, MAX_ATTEMPTS + 1):
        opened = await open_turn(agent, session, ack=f"ack-{number}")
        assert (opened.state, opened.attempt) == (TurnState.RUNNING, number)
    last = await open_turn(agent, session, ack="ack-last")
    assert last.state is TurnState.DEAD
    assert (await open_turn(agent, session, ack="ack-more")).state is TurnState.DEAD
    await eventually(lambda: bool(letters) and len(events) == 2, "dead letter and event")
    assert letters[0]["reason"] == "too_many_attempts"
    assert letters[0]["inbound"]["text"] == "hello"  # type: ignore[index]
    assert events[-1].type == "turn.dead"
    assert events[-1].data["reply"] == GIVEN_UP
    parts = world.rows("select part, parts, state from deliveries where sid = %s", session.sid)
    assert parts == [(1, 1, "pending")]


@pytest.mark.parametrize("opened_before", [True, False])
async def test_the_operator_buries_a_message_once(world: World, opened_before: bool) -> None:
    session = new_session()
    epoch = await awake(world, session)
    agent = await world.agent(session.sid, epoch)
    opened = await open_turn(agent, session) if opened_before else None
    operator = await world.service(Role.OPERATOR)
    for _ in range(2):
        await operator.call(BURY, BuryRequest(inbound=session.inbound("u"), reason="image cannot be pulled"))
    assert world.rows("select state, reply, reason from turns where sid = %s", session.sid) == [
        ("dead", GIVEN_UP, "image cannot be pulled")
    ]
    letters = world.rows("select count(*) from outbox where sid = %s and subject like 'hermes.dead.%%'", session.sid)
    assert letters == [(1,)]
    if opened is not None:
        late = AppendRequest(turn_id=opened.turn_id, step=0, messages=(Message.user("x"),))
        assert await refused(agent.call(APPEND, late)) is ErrorCode.FENCED
    assert (
        await refused(operator.call(BURY, BuryRequest(inbound=new_session().inbound("u"), reason="x")))
        is ErrorCode.NOT_FOUND
    )
