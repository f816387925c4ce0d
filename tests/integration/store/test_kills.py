"""Stores, PostgreSQL and NATS are killed while agents work: nothing acknowledged is lost, doubled or out of order.

Set HERMES_TEST_KILLS to kill each that many times (the default keeps the suite short).
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from hermes_contracts import subjects
from hermes_contracts.conversation import Message, Usage
from hermes_contracts.envelopes import Event, Outbound
from hermes_contracts.store_api import (
    APPEND,
    COMMIT,
    COMPACT,
    FREEZE_PROMPT,
    LOAD,
    OPEN_TURN,
    AppendRequest,
    CommitRequest,
    CompactRequest,
    FreezePromptRequest,
    FrozenPrompt,
    JournalEntry,
    LoadRequest,
    OpenTurnRequest,
)  # fmt: skip
from hermes_service.rpc import StoreClient
from tests.integration.store.harness import Session, StoreProcess, World, awake, new_session, wait_until

KILLS = int(os.environ.get("HERMES_TEST_KILLS", "3"))
SESSIONS = 3
EVENTS_OF_A_TURN = ["turn.started", "tool.started", "tool.finished", "turn.done"]

pytestmark = pytest.mark.timeout(120 + 60 * KILLS)


@dataclass
class Diary:
    """What one agent was told to be written, in order."""

    session: Session
    agent: StoreClient
    said: list[str] = field(default_factory=list)
    turns: int = 0


@pytest.fixture
async def replicas(own_servers: World) -> AsyncIterator[list[StoreProcess]]:
    stores = [own_servers.store(name) for name in ("a", "b")]
    try:
        for store in stores:
            await asyncio.to_thread(store.start)
        yield stores
    finally:
        for store in stores:
            store.kill()
        await own_servers.close_clients()


async def work(diary: Diary, stop: asyncio.Event) -> None:
    """Run turns of four writes until told to stop; every acknowledged message goes into the diary."""
    agent, usage = diary.agent, Usage(input_tokens=1)
    while not stop.is_set():
        number = diary.turns
        request = OpenTurnRequest(
            inbound=diary.session.inbound(f"u{number}"), ack_subject=f"a{number}", stream_sequence=number
        )
        opened = await agent.call(OPEN_TURN, request, timeout_seconds=1)
        assert (opened.attempt, opened.next_step) == (1, 0)
        for step, state in enumerate(("started", "finished")):
            text = f"{number}/{step}"
            entry = JournalEntry(call_id=f"c{number}", tool="terminal", state=state)  # type: ignore[arg-type]
            append = AppendRequest(
                turn_id=opened.turn_id, step=step, messages=(Message.assistant(text),), journal=(entry,), usage=usage
            )
            reply = await agent.call(APPEND, append, timeout_seconds=1)
            diary.said.append(text)
            assert reply.sequence == len(diary.said), "a lost or doubled message moves the numbers"
        text = f"{number}/2"
        commit = CommitRequest(
            turn_id=opened.turn_id, step=2, messages=(Message.assistant(text),), outcome="done", reply=text, usage=usage
        )
        await agent.call(COMMIT, commit, timeout_seconds=1)
        diary.said.append(text)
        diary.turns += 1


async def load_all(diary: Diary) -> list[str]:
    texts: list[str] = []
    after, more = 0, True
    while more:
        request = LoadRequest(conversation=diary.session.conversation, after=after, limit=1000)
        page = await diary.agent.call(LOAD, request, timeout_seconds=1)
        texts += [stored.message.text() for stored in page.messages]
        after, more = page.messages[-1].sequence, page.more
    return texts


async def published(world: World, stream: str, subject: str) -> list[bytes]:
    jetstream = (await world.witness()).jetstream()
    found: list[bytes] = []
    info = await jetstream.stream_info(stream, subjects_filter=subject)
    expected = (info.state.subjects or {}).get(subject, 0)
    sequence = 0
    while len(found) < expected:
        message = await jetstream.get_msg(stream, seq=sequence + 1, subject=subject, next=True)
        found.append(message.data or b"")
        sequence = message.seq or 0
    return found


async def check(world: World, diary: Diary) -> None:
    sid = diary.session.sid
    assert await load_all(diary) == diary.said
    events = [
        Event.model_validate_json(data) for data in await published(world, subjects.EVENTS_STREAM, subjects.event(sid))
    ]
    told = list(dict.fromkeys((event.update_id, event.type.value) for event in events))
    assert told == [(f"u{number}", kind) for number in range(diary.turns) for kind in EVENTS_OF_A_TURN]
    assert len(told) == len(events), "the bus drops a row that is published twice"
    data = await published(world, subjects.OUT_STREAM, subjects.outbound("webhook", sid))
    assert [Outbound.model_validate_json(part).text for part in data] == [f"{number}/2" for number in range(diary.turns)]
    counted = world.rows("select turns, input_tokens, last_sequence from sessions where sid = %s", sid)
    assert counted == [(diary.turns, 3 * diary.turns, len(diary.said))]
    assert world.rows("select count(*), max(attempt) from turns where sid = %s and state = 'done'", sid) == [
        (diary.turns, 1)
    ]


async def under_load(world: World, harm: object) -> None:
    diaries = []
    for _ in range(SESSIONS):
        session = new_session()
        diaries.append(Diary(session, await world.agent(session.sid, await awake(world, session), patience_seconds=90)))
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for diary in diaries:
            group.create_task(work(diary, stop))
        try:
            await harm(diaries)  # type: ignore[operator]
            while min(diary.turns for diary in diaries) < KILLS:
                await progress(diaries)
        finally:
            stop.set()
    waiting = "select count(*) from outbox where relayed_at is null"
    await asyncio.to_thread(wait_until, lambda: world.rows(waiting) == [(0,)], "the outbox is empty", 60)
    for diary in diaries:
        await check(world, diary)
    print(f"turns: {[diary.turns for diary in diaries]}")


async def progress(diaries: list[Diary]) -> None:
    """Wait until every agent got something acknowledged."""
    before = [len(diary.said) for diary in diaries]
    async with asyncio.timeout(60):
        while any(len(diary.said) <= count for diary, count in zip(diaries, before, strict=True)):
            await asyncio.sleep(0.01)
    await asyncio.sleep(random.uniform(0, 0.05))  # so that kills hit every point of a write


async def test_store_processes_are_killed(own_servers: World, replicas: list[StoreProcess]) -> None:
    async def harm(diaries: list[Diary]) -> None:
        for number in range(KILLS * 2):
            await progress(diaries)
            victim = replicas[number % 2]
            victim.kill()
            victim.start(wait=False)
            await asyncio.to_thread(wait_until, victim.ready, "the store is ready again", 60)

    await under_load(own_servers, harm)


async def compact_for_ever(diary: Diary, stop: asyncio.Event) -> None:
    """One long turn of steps and compactions; every acknowledged answer goes into the diary."""
    agent, session = diary.agent, diary.session
    request = OpenTurnRequest(inbound=session.inbound("u"), first=Message.user("begin"), ack_subject="a", stream_sequence=1)
    turn_id = (await agent.call(OPEN_TURN, request, timeout_seconds=1)).turn_id
    prompt = FrozenPrompt(system="You are Hermes.", tools=())
    await agent.call(FREEZE_PROMPT, FreezePromptRequest(conversation=session.conversation, prompt=prompt), timeout_seconds=1)
    sequence, step = 1, 1
    while not stop.is_set():
        text = f"said {diary.turns}"
        append = AppendRequest(turn_id=turn_id, step=step, messages=(Message.assistant(text),))
        reply = await agent.call(APPEND, append, timeout_seconds=1)
        assert reply.sequence == sequence + 1
        compact = CompactRequest(
            turn_id=turn_id, step=step + 1, conversation=session.conversation, expected=diary.turns, prompt=prompt,
            messages=(Message.user(f"summary {diary.turns}"), Message.assistant(text)), summary_index=0,
        )  # fmt: skip
        compacted = await agent.call(COMPACT, compact, timeout_seconds=1)
        diary.turns += 1
        assert (compacted.sequence, compacted.compactions) == (sequence + 3, diary.turns)
        diary.said += [text, f"summary {diary.turns - 1}"]
        sequence, step = sequence + 3, step + 2


async def test_compactions_happen_once_while_store_processes_are_killed(
    own_servers: World, replicas: list[StoreProcess]
) -> None:
    session = new_session()
    diary = Diary(session, await own_servers.agent(session.sid, await awake(own_servers, session), patience_seconds=90))
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(compact_for_ever(diary, stop))
        try:
            for number in range(KILLS * 2):
                await progress([diary])
                victim = replicas[number % 2]
                victim.kill()
                victim.start(wait=False)
                await asyncio.to_thread(wait_until, victim.ready, "the store is ready again", 60)
            await progress([diary])
        finally:
            stop.set()
    assert await load_all(diary) == [diary.said[-1], diary.said[-2]]
    shown = own_servers.rows("select body from messages where sid = %s and not copied order by sequence", session.sid)
    assert [Message.model_validate_json(str(body)).text() for (body,) in shown] == ["begin", *diary.said]
    numbers = own_servers.rows("select array_agg(number order by number) from compactions where sid = %s", session.sid)
    assert numbers == [(list(range(1, diary.turns + 1)),)]
    print(f"compactions: {diary.turns}")


async def test_postgresql_is_killed(own_servers: World, replicas: list[StoreProcess]) -> None:
    async def harm(diaries: list[Diary]) -> None:
        for _ in range(KILLS):
            await progress(diaries)
            own_servers.postgres.kill()
            await asyncio.to_thread(own_servers.postgres.start)
        await progress(diaries)

    await under_load(own_servers, harm)


async def test_nats_is_killed(own_servers: World, replicas: list[StoreProcess]) -> None:
    async def harm(diaries: list[Diary]) -> None:
        for _ in range(KILLS):
            await progress(diaries)
            own_servers.nats.kill()
            await asyncio.to_thread(own_servers.nats.start)
        await progress(diaries)

    await under_load(own_servers, harm)
