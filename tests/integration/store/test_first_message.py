"""A turn opens together with the person's message; titles are given once by the agent and never taken from a person."""

from __future__ import annotations

import pytest

from hermes_contracts.bus_permissions import Role
from hermes_contracts.conversation import Message
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    APPEND,
    COMMIT,
    CREATE_SESSION,
    FREEZE_PROMPT,
    GET_SESSION,
    LOAD,
    OPEN_TURN,
    SET_TITLE,
    AppendRequest,
    CommitRequest,
    CreateSessionRequest,
    FreezePromptRequest,
    FrozenPrompt,
    LoadRequest,
    OpenTurnRequest,
    OwnedSessionRequest,
    SetTitleRequest,
    TurnState,
)  # fmt: skip
from hermes_service.rpc import StoreClient
from tests.integration.store.harness import Session, World, awake, new_session


def opening(session: Session, ack: str = "a", text: str = "hello \x00") -> OpenTurnRequest:
    return OpenTurnRequest(inbound=session.inbound("u"), first=Message.user(text), ack_subject=ack, stream_sequence=1)


async def said(agent: StoreClient, session: Session) -> list[tuple[int, str]]:
    page = await agent.call(LOAD, LoadRequest(conversation=session.conversation))
    return [(stored.step, stored.message.text()) for stored in page.messages]


async def test_the_first_message_is_written_once(world: World) -> None:
    session = new_session()
    agent = await world.agent(session.sid, await awake(world, session))
    first = await agent.call(OPEN_TURN, opening(session))
    assert (first.state, first.attempt, first.next_step) == (TurnState.RUNNING, 1, 1)
    assert await agent.call(OPEN_TURN, opening(session)) == first
    again = await agent.call(OPEN_TURN, opening(session, ack="b", text="forged"))
    assert (again.turn_id, again.attempt, again.next_step) == (first.turn_id, 2, 1)
    assert await said(agent, session) == [(0, "hello \x00")]
    with pytest.raises(HermesError) as caught:
        await agent.call(COMMIT, CommitRequest(turn_id=first.turn_id, step=0, messages=(), outcome="done", reply=""))
    assert caught.value.code is ErrorCode.CONFLICT
    reply = await agent.call(APPEND, AppendRequest(turn_id=first.turn_id, step=1, messages=(Message.assistant("hi"),)))
    assert reply.sequence == 2
    await agent.call(COMMIT, CommitRequest(turn_id=first.turn_id, step=2, messages=(), outcome="done", reply="hi"))
    settled = await agent.call(OPEN_TURN, opening(session, ack="c"))
    assert (settled.state, settled.next_step) == (TurnState.DONE, 3)
    assert await said(agent, session) == [(0, "hello \x00"), (1, "hi")]


async def test_a_fenced_agent_opens_nothing(world: World) -> None:
    session = new_session()
    epoch = await awake(world, session)
    await awake(world, session, expected=epoch)
    zombie = await world.agent(session.sid, epoch)
    with pytest.raises(HermesError) as caught:
        await zombie.call(OPEN_TURN, opening(session))
    assert caught.value.code is ErrorCode.FENCED
    for table in ("turns", "steps", "messages", "outbox"):
        assert world.rows(f"select 1 from {table} where sid = %s", session.sid) == [], table


async def test_the_measured_context_covers_what_the_model_wrote_and_read(world: World) -> None:
    session = new_session()
    agent = await world.agent(session.sid, await awake(world, session))
    turn_id = (await agent.call(OPEN_TURN, opening(session))).turn_id
    prompt = FrozenPrompt(system="s", tools=())
    await agent.call(FREEZE_PROMPT, FreezePromptRequest(conversation=session.conversation, prompt=prompt))
    messages = (Message.assistant("call"), Message.user("steered"))
    await agent.call(APPEND, AppendRequest(turn_id=turn_id, step=1, messages=messages, context_tokens=70_000))
    await agent.call(APPEND, AppendRequest(turn_id=turn_id, step=2, messages=(Message.user("more"),)))
    page = await agent.call(LOAD, LoadRequest(conversation=session.conversation))
    assert (page.context_tokens, page.context_sequence) == (70_000, 2)
    last = CommitRequest(
        turn_id=turn_id, step=3, messages=(Message.assistant("x"),), outcome="done", reply="x", context_tokens=70_100
    )
    await agent.call(COMMIT, last)
    page = await agent.call(LOAD, LoadRequest(conversation=session.conversation))
    assert (page.context_tokens, page.context_sequence) == (70_100, 5)


async def test_titles(world: World) -> None:
    gateway = await world.service(Role.GATEWAY)
    for given, shown in (("", "Broken build"), ("Mine", "Mine")):
        session = new_session()
        if given:
            await gateway.call(CREATE_SESSION, CreateSessionRequest(route=session.route, title=given))
        agent = await world.agent(session.sid, await awake(world, session))
        request = SetTitleRequest(conversation=session.conversation, title="Broken build")
        with pytest.raises(HermesError) as caught:
            await agent.call(SET_TITLE, request)
        assert caught.value.code is ErrorCode.NOT_FOUND
        prompt = FreezePromptRequest(conversation=session.conversation, prompt=FrozenPrompt(system="s", tools=()))
        await agent.call(FREEZE_PROMPT, prompt)
        await agent.call(SET_TITLE, request)
        await agent.call(SET_TITLE, request.model_copy(update={"title": "Green build"}))
        mine = await gateway.call(GET_SESSION, OwnedSessionRequest(sid=session.sid, owner="ada"))
        assert mine.title == shown
        assert world.rows("select title from conversations where sid = %s", session.sid) == [("Green build",)]
        zombie = await world.agent(session.sid, 9)
        with pytest.raises(HermesError) as caught:
            await zombie.call(SET_TITLE, request)
        assert caught.value.code is ErrorCode.FENCED
