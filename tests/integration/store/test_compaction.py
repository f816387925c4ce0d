"""A conversation begins anew: the agent loads the short one, people read all that was said, and it happens once."""

from __future__ import annotations

import asyncio

import pytest

from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Role
from hermes_contracts.conversation import Message, Usage
from hermes_contracts.envelopes import Event
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    APPEND,
    COMMIT,
    COMPACT,
    FINISH_COMMAND,
    FREEZE_PROMPT,
    GET_SESSION,
    LOAD,
    OPEN_TURN,
    PUT_COMMAND,
    TRANSCRIPT,
    AppendRequest,
    CommandKind,
    CommitRequest,
    CompactReply,
    CompactRequest,
    FinishCommandRequest,
    FreezePromptRequest,
    FrozenPrompt,
    LoadReply,
    LoadRequest,
    OpenTurnRequest,
    OwnedSessionRequest,
    PutCommandRequest,
    TranscriptRequest,
)  # fmt: skip
from hermes_service.rpc import StoreClient
from tests.integration.store.harness import Session, World, awake, eventually, new_session

OLD, NEW = FrozenPrompt(system="You are Hermes. Monday.", tools=()), FrozenPrompt(system="You are Hermes. Friday.", tools=())


def request(session: Session, turn_id: str, **changes: object) -> CompactRequest:
    facts: dict[str, object] = {
        "turn_id": turn_id,
        "step": 2,
        "conversation": session.conversation,
        "expected": 0,
        "prompt": NEW,
        "messages": (Message.user("one"), Message.user("SUMMARY"), Message.assistant("two")),
        "summary_index": 1,
        "usage": Usage(output_tokens=50, model_calls=1, cost_nano_usd=70),
        "tokens_before": 1000,
        "tokens_after": 100,
        **changes,
    }
    return CompactRequest(**facts)  # type: ignore[arg-type]


async def talking(world: World) -> tuple[Session, StoreClient, str]:
    """A session with a prompt and a turn that wrote two steps, the last one measured."""
    session = new_session()
    agent = await world.agent(session.sid, await awake(world, session))
    opening = OpenTurnRequest(inbound=session.inbound("u1"), first=Message.user("one"), ack_subject="ack", stream_sequence=1)
    turn_id = (await agent.call(OPEN_TURN, opening)).turn_id
    await agent.call(FREEZE_PROMPT, FreezePromptRequest(conversation=session.conversation, prompt=OLD))
    step = AppendRequest(turn_id=turn_id, step=1, messages=(Message.assistant("two"),), context_tokens=900)
    await agent.call(APPEND, step)
    return session, agent, turn_id


async def load(agent: StoreClient, session: Session) -> LoadReply:
    return await agent.call(LOAD, LoadRequest(conversation=session.conversation))


def texts(reply: LoadReply) -> list[str]:
    return [stored.message.text() for stored in reply.messages]


async def refused(agent: StoreClient, call: CompactRequest) -> ErrorCode:
    with pytest.raises(HermesError) as caught:
        await agent.call(COMPACT, call)
    return caught.value.code


async def test_a_compacted_conversation_goes_on_from_its_summary(world: World) -> None:
    session, agent, turn_id = await talking(world)
    before = await load(agent, session)
    assert (before.compactions, before.context_tokens, before.context_sequence, before.prompt) == (0, 900, 2, OLD)
    events: list[Event] = []

    async def on_event(message) -> None:
        events.append(Event.model_validate_json(message.data))

    witness = await world.witness()
    await witness.subscribe(subjects.event(session.sid), cb=on_event)
    await witness.flush()
    assert await agent.call(COMPACT, request(session, turn_id)) == CompactReply(sequence=5, compactions=1)
    after = await load(agent, session)
    assert texts(after) == ["one", "SUMMARY", "two"]
    assert (after.compactions, after.context_tokens, after.context_sequence, after.prompt) == (1, 0, 0, NEW)
    await agent.call(
        APPEND, AppendRequest(turn_id=turn_id, step=3, messages=(Message.assistant("three"),), context_tokens=120)
    )
    again = await load(agent, session)
    assert texts(again) == ["one", "SUMMARY", "two", "three"]
    assert (again.context_tokens, again.context_sequence) == (120, 6)
    page = await agent.call(LOAD, LoadRequest(conversation=session.conversation, after=4))
    assert (texts(page), page.prompt, page.compactions) == (["two", "three"], None, 1)

    gateway = await world.service(Role.GATEWAY)
    for conversation in (session.conversation, None):
        asked = TranscriptRequest(sid=session.sid, owner="ada", conversation=conversation)
        seen = await gateway.call(TRANSCRIPT, asked)
        assert [stored.message.text() for stored in seen.messages] == ["one", "two", "SUMMARY", "three"]
    await eventually(lambda: any(event.type == "conversation.compacted" for event in events), "the event")
    (told,) = [event for event in events if event.type == "conversation.compacted"]
    assert told.data == {"compactions": 1, "tokens_before": 1000, "tokens_after": 100}
    assert (told.turn_id, told.conversation, told.update_id) == (turn_id, session.conversation, "u1")
    columns = "number, old_prompt, tokens_before, tokens_after, first_sequence, summary_sequence, last_sequence"
    lineage = world.rows(f"select {columns} from compactions where sid = %s", session.sid)
    assert lineage == [(1, OLD.model_dump_json(), 1000, 100, 3, 4, 5)]
    await agent.call(COMMIT, CommitRequest(turn_id=turn_id, step=4, messages=(), outcome="done", reply="three"))
    mine = await gateway.call(GET_SESSION, OwnedSessionRequest(sid=session.sid, owner="ada"))
    assert (mine.usage.cost_nano_usd, mine.usage.output_tokens, mine.usage.model_calls) == (70, 50, 1)
    assert world.rows("select cost_nano_usd from turns where sid = %s", session.sid) == [(70,)]


async def test_a_repeated_compaction_answers_as_the_first(world: World) -> None:
    session, agent, turn_id = await talking(world)
    first = await agent.call(COMPACT, request(session, turn_id))
    await agent.call(APPEND, AppendRequest(turn_id=turn_id, step=3, messages=(Message.assistant("three"),)))
    changes = {"step": 4, "expected": 1, "messages": (Message.user("S2"),), "summary_index": 0}
    second = await agent.call(COMPACT, request(session, turn_id, **changes))
    assert second == CompactReply(sequence=7, compactions=2)
    assert await agent.call(COMPACT, request(session, turn_id)) == first
    assert texts(await load(agent, session)) == ["S2"]
    assert world.rows("select number, old_prompt is null from compactions where sid = %s order by 1", session.sid) == [
        (1, False),
        (2, True),
    ]


async def test_two_at_once_compact_once(world: World) -> None:
    session, agent, turn_id = await talking(world)
    other = await world.agent(session.sid, 1)
    replies = await asyncio.gather(*(client.call(COMPACT, request(session, turn_id)) for client in (agent, other) * 3))
    assert replies == [CompactReply(sequence=5, compactions=1)] * 6
    racing = [request(session, turn_id, step=step, expected=1) for step in (3, 4)]
    results = await asyncio.gather(agent.call(COMPACT, racing[0]), other.call(COMPACT, racing[1]), return_exceptions=True)
    lost = [result for result in results if isinstance(result, HermesError)]
    assert len(lost) == 1 and lost[0].code is ErrorCode.CONFLICT
    assert (await load(agent, session)).compactions == 2


async def test_what_may_not_be_compacted(world: World) -> None:
    session, agent, turn_id = await talking(world)
    before = await load(agent, session)
    big = tuple(Message.user("x" * 100_000) for _ in range(4))
    other = new_session().conversation
    for changes, code in (
        ({"expected": 1}, ErrorCode.CONFLICT),
        ({"summary_index": 3}, ErrorCode.INVALID),
        ({"messages": big}, ErrorCode.TOO_LARGE),
        ({"prompt": FrozenPrompt(system="x" * 300_000, tools=()), "messages": (Message.user("S"),), "summary_index": 0},
         ErrorCode.TOO_LARGE),
        ({"step": 1}, ErrorCode.CONFLICT),
        ({"conversation": other}, ErrorCode.INVALID),
    ):  # fmt: skip
        assert await refused(agent, request(session, turn_id, **changes)) is code, changes
    assert await refused(agent, request(session, "t" + "a" * 25)) is ErrorCode.NOT_FOUND
    zombie = await world.agent(session.sid, 7)
    assert await refused(zombie, request(session, turn_id)) is ErrorCode.FENCED
    await agent.call(COMMIT, CommitRequest(turn_id=turn_id, step=2, messages=(), outcome="done", reply="two"))
    assert await refused(agent, request(session, turn_id, step=3)) is ErrorCode.CONFLICT
    assert await load(agent, session) == before
    assert world.rows("select 1 from compactions where sid = %s", session.sid) == []


async def test_a_conversation_without_a_prompt_has_nothing_to_compact(world: World) -> None:
    session = new_session()
    agent = await world.agent(session.sid, await awake(world, session))
    opening = OpenTurnRequest(inbound=session.inbound("u1"), ack_subject="ack", stream_sequence=1)
    turn_id = (await agent.call(OPEN_TURN, opening)).turn_id
    assert await refused(agent, request(session, turn_id)) is ErrorCode.NOT_FOUND


async def test_a_person_compacts_by_command_between_turns(world: World) -> None:
    session, agent, turn_id = await talking(world)
    await agent.call(COMMIT, CommitRequest(turn_id=turn_id, step=2, messages=(), outcome="done", reply="two"))
    gateway = await world.service(Role.GATEWAY)
    commands = {
        kind: (
            await gateway.call(
                PUT_COMMAND,
                PutCommandRequest(sid=session.sid, owner="ada", account="build", update_id=f"k-{kind}", kind=kind),
            )
        ).command_id
        for kind in (CommandKind.COMPRESS, CommandKind.STOP)
    }
    assert await refused(agent, request(session, commands[CommandKind.STOP], step=0)) is ErrorCode.NOT_FOUND
    compact = request(session, commands[CommandKind.COMPRESS], step=0)
    first = await agent.call(COMPACT, compact)
    done = FinishCommandRequest(command_id=commands[CommandKind.COMPRESS], result="From 1,000 to 100 tokens.")
    await agent.call(FINISH_COMMAND, done)
    assert await agent.call(COMPACT, compact) == first
    assert texts(await load(agent, session)) == ["one", "SUMMARY", "two"]
    assert await refused(agent, compact.model_copy(update={"step": 1, "expected": 1})) is ErrorCode.CONFLICT
    mine = await gateway.call(GET_SESSION, OwnedSessionRequest(sid=session.sid, owner="ada"))
    assert mine.usage.cost_nano_usd == 70
