"""A message becomes a turn, the turn ends once, and its answer leaves once, in order."""

from __future__ import annotations

from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Role
from hermes_contracts.conversation import Message, Usage
from hermes_contracts.envelopes import Event, Outbound
from hermes_contracts.store_api import (
    APPEND,
    COMMIT,
    GET_TURN,
    LOAD,
    OPEN_TURN,
    AppendRequest,
    CommitRequest,
    GetTurnRequest,
    JournalEntry,
    LoadRequest,
    OpenTurnRequest,
    TurnState,
)  # fmt: skip
from tests.integration.store.harness import World, awake, eventually, new_session


async def test_hello(world: World) -> None:
    session = new_session()
    epoch = await awake(world, session)
    agent = await world.agent(session.sid, epoch)
    witness = await world.witness()
    events: list[Event] = []
    parts: list[Outbound] = []

    async def on_event(message) -> None:
        events.append(Event.model_validate_json(message.data))

    async def on_part(message) -> None:
        parts.append(Outbound.model_validate_json(message.data))

    await witness.subscribe(subjects.event(session.sid), cb=on_event)
    await witness.subscribe(subjects.outbound("webhook", session.sid), cb=on_part)
    opened = await agent.call(
        OPEN_TURN, OpenTurnRequest(inbound=session.inbound("u1"), ack_subject="$JS.ACK.1", stream_sequence=1)
    )
    assert (opened.state, opened.attempt, opened.next_step) == (TurnState.RUNNING, 1, 0)
    first = await agent.call(
        APPEND, AppendRequest(turn_id=opened.turn_id, step=0, messages=(Message.user("hello"),), usage=Usage(input_tokens=3))
    )
    await agent.call(
        APPEND,
        AppendRequest(
            turn_id=opened.turn_id, step=1, messages=(Message.assistant("let me look"),),
            journal=(JournalEntry(call_id="c1", tool="terminal", state="started"),),
        ),
    )  # fmt: skip
    await agent.call(
        COMMIT,
        CommitRequest(
            turn_id=opened.turn_id, step=2, messages=(Message.assistant("hi"),), outcome="done", reason="stop", reply="hi",
            usage=Usage(output_tokens=4),
        ),
    )  # fmt: skip
    await eventually(lambda: len(events) == 3 and len(parts) == 1, "events and the answer")
    assert [event.type for event in events] == ["turn.started", "tool.started", "turn.done"]
    assert events[-1].data["reply"] == "hi"
    assert (parts[0].part, parts[0].parts, parts[0].text, parts[0].chat) == (1, 1, "hi", session.route.key.chat)
    page = await agent.call(LOAD, LoadRequest(conversation=session.conversation))
    assert [stored.message.text() for stored in page.messages] == ["hello", "let me look", "hi"]
    assert page.messages[0].sequence == first.sequence
    gateway = await world.service(Role.GATEWAY)
    turn = await gateway.call(
        GET_TURN,
        GetTurnRequest(sid=session.sid, owner="ada", channel="webhook", account="build", update_id="u1"),
    )
    assert (turn.state, turn.reply, turn.usage.input_tokens, turn.usage.output_tokens) == (TurnState.DONE, "hi", 3, 4)
