"""What the store refuses it has not written: not a row of any table differs afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from hermes_contracts.conversation import Message, Usage
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    APPEND,
    COMMIT,
    COMPACT,
    FREEZE_PROMPT,
    OPEN_TURN,
    PUT_MEDIA,
    SET_TITLE,
    AppendRequest,
    CommitRequest,
    CompactRequest,
    FreezePromptRequest,
    FrozenPrompt,
    JournalEntry,
    OpenTurnRequest,
    PutMediaRequest,
    SetTitleRequest,
)  # fmt: skip
from hermes_service.rpc import StoreClient
from tests.integration.store.harness import Session, World, awake, eventually, new_session

TABLES = (
    "sessions", "conversations", "turns", "steps", "messages", "journal", "outbox", "deliveries", "usage", "compactions",
    "media",
)  # fmt: skip
Write = Callable[[StoreClient, Session, str], Awaitable[object]]


def opening(session: Session, update_id: str) -> OpenTurnRequest:
    return OpenTurnRequest(
        inbound=session.inbound(update_id), first=Message.user("hello"), ack_subject="a", stream_sequence=1
    )


async def append(agent: StoreClient, session: Session, turn_id: str) -> object:
    entry = JournalEntry(call_id="late", tool="terminal", state="started")
    request = AppendRequest(
        turn_id=turn_id, step=9, messages=(Message.assistant("late"),), journal=(entry,), usage=Usage(input_tokens=5),
        context_tokens=70,
    )  # fmt: skip
    return await agent.call(APPEND, request)


async def commit(agent: StoreClient, session: Session, turn_id: str) -> object:
    request = CommitRequest(
        turn_id=turn_id, step=9, messages=(Message.assistant("late"),), outcome="failed", reply="late", context_tokens=70
    )
    return await agent.call(COMMIT, request)


async def compact(agent: StoreClient, session: Session, turn_id: str) -> object:
    request = CompactRequest(
        turn_id=turn_id, step=9, conversation=session.conversation, expected=0, prompt=FrozenPrompt(system="late", tools=()),
        messages=(Message.user("late"),), summary_index=0,
    )  # fmt: skip
    return await agent.call(COMPACT, request)


async def open_turn(agent: StoreClient, session: Session, turn_id: str) -> object:
    return await agent.call(OPEN_TURN, opening(session, "late"))


async def set_title(agent: StoreClient, session: Session, turn_id: str) -> object:
    return await agent.call(SET_TITLE, SetTitleRequest(conversation=session.conversation, title="late"))


async def put_media(agent: StoreClient, session: Session, turn_id: str) -> object:
    picture = PutMediaRequest(
        sid=session.sid, media_id="m" + "a" * 25, media_type="image/png", total=9, offset=0, data="YWJj"
    )
    return await agent.call(PUT_MEDIA, picture)


async def rows_at_rest(world: World, session: Session) -> dict[str, list[tuple[object, ...]]]:
    waiting = "select count(*) from outbox where sid = %s and relayed_at is null"
    await eventually(lambda: world.rows(waiting, session.sid) == [(0,)], "all is relayed")
    return {table: sorted(world.rows(f"select t::text from {table} t where sid = %s", session.sid)) for table in TABLES}


async def a_turn(world: World, session: Session) -> tuple[StoreClient, str]:
    agent = await world.agent(session.sid, await awake(world, session))
    turn_id = (await agent.call(OPEN_TURN, opening(session, "u"))).turn_id
    prompt = FrozenPrompt(system="s", tools=())
    await agent.call(FREEZE_PROMPT, FreezePromptRequest(conversation=session.conversation, prompt=prompt))
    return agent, turn_id


@pytest.mark.parametrize("write", [append, commit, compact, open_turn, set_title, put_media])
async def test_a_zombie_writes_nothing(world: World, write: Write) -> None:
    session = new_session()
    zombie, turn_id = await a_turn(world, session)
    await awake(world, session, expected=1)
    before = await rows_at_rest(world, session)
    with pytest.raises(HermesError) as caught:
        await write(zombie, session, turn_id)
    assert caught.value.code is ErrorCode.FENCED
    assert await rows_at_rest(world, session) == before


@pytest.mark.parametrize("write", [append, commit, compact])
@pytest.mark.parametrize(
    ("state", "code"), [("done", ErrorCode.CONFLICT), ("dead", ErrorCode.FENCED), ("", ErrorCode.NOT_FOUND)]
)
async def test_a_turn_that_is_over_or_was_never_there_takes_no_more(
    world: World, write: Write, state: str, code: ErrorCode
) -> None:
    session = new_session()
    agent, turn_id = await a_turn(world, session)
    if state:
        world.rows_change("update turns set state = %s where sid = %s", state, session.sid)
    before = await rows_at_rest(world, session)
    with pytest.raises(HermesError) as caught:
        await write(agent, session, turn_id if state else "t" + "a" * 25)
    assert caught.value.code is code
    assert await rows_at_rest(world, session) == before


@pytest.mark.parametrize("write", [append, commit, compact])
async def test_a_repeated_write_changes_nothing(world: World, write: Write) -> None:
    session = new_session()
    agent, turn_id = await a_turn(world, session)
    first = await write(agent, session, turn_id)
    before = await rows_at_rest(world, session)
    assert await write(agent, session, turn_id) == first
    assert await rows_at_rest(world, session) == before
