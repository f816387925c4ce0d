"""What the gateway asks for a person: sessions, transcripts, commands. A foreign session is not found."""

from __future__ import annotations

import pytest

from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Role
from hermes_contracts.conversation import Message, Role as Speaker, TextPart
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    APPEND,
    CREATE_SESSION,
    DELETE_SESSION,
    FINISH_COMMAND,
    FREEZE_PROMPT,
    GET_SESSION,
    GET_TURN,
    LIST_SESSIONS,
    LOAD,
    OPEN_TURN,
    PUT_COMMAND,
    RAISE_EPOCH,
    SUMMARIES,
    TAKE_COMMANDS,
    TRANSCRIPT,
    WAITING_COMMANDS,
    AppendRequest,
    CommandKind,
    CreateSessionRequest,
    Empty,
    FinishCommandRequest,
    FreezePromptRequest,
    FrozenPrompt,
    GetTurnRequest,
    ListSessionsRequest,
    LoadRequest,
    OpenTurnRequest,
    OwnedSessionRequest,
    PutCommandRequest,
    RaiseEpochRequest,
    SessionIdsRequest,
    TranscriptRequest,
)  # fmt: skip
from hermes_gateway.store.conversations import MAX_PROMPT_BYTES
from hermes_service.rpc import StoreClient
from tests.integration.store.harness import Session, World, awake, eventually, new_session


async def code_of(call: object) -> ErrorCode:
    with pytest.raises(HermesError) as caught:
        await call  # type: ignore[misc]
    return caught.value.code


async def say(agent: StoreClient, session: Session, update_id: str, *messages: Message) -> str:
    request = OpenTurnRequest(inbound=session.inbound(update_id), ack_subject="a", stream_sequence=1)
    turn_id = (await agent.call(OPEN_TURN, request)).turn_id
    await agent.call(APPEND, AppendRequest(turn_id=turn_id, step=0, messages=messages))
    return turn_id


def stop(session: Session, update_id: str = "k1", owner: str = "ada") -> PutCommandRequest:
    return PutCommandRequest(sid=session.sid, owner=owner, account="build", update_id=update_id, kind=CommandKind.STOP)


async def test_a_session_is_made_before_its_first_message(world: World) -> None:
    session = new_session(channel="api", owner="made")
    gateway = await world.service(Role.GATEWAY)
    request = CreateSessionRequest(route=session.route, title="Release notes")
    first = await gateway.call(CREATE_SESSION, request)
    again = await gateway.call(CREATE_SESSION, request.model_copy(update={"title": "Other"}))
    assert (first.title, again.title, first.key["chat"]) == ("Release notes", "Release notes", session.route.key.chat)
    operator = await world.service(Role.OPERATOR)
    assert (await operator.call(RAISE_EPOCH, RaiseEpochRequest(route=session.route, expected=0))).epoch == 1
    thief = CreateSessionRequest(route=session.route.model_copy(update={"owner": "eve"}))
    assert await code_of(gateway.call(CREATE_SESSION, thief)) is ErrorCode.NOT_FOUND


async def test_a_foreign_session_is_not_found(world: World) -> None:
    session = new_session()
    agent = await world.agent(session.sid, await awake(world, session))
    await say(agent, session, "u1", Message.user("private"))
    gateway = await world.service(Role.GATEWAY)
    turn = GetTurnRequest(sid=session.sid, owner="eve", channel="webhook", account="build", update_id="u1")
    calls = [
        (GET_SESSION, OwnedSessionRequest(sid=session.sid, owner="eve")),
        (DELETE_SESSION, OwnedSessionRequest(sid=session.sid, owner="eve")),
        (TRANSCRIPT, TranscriptRequest(sid=session.sid, owner="eve")),
        (GET_TURN, turn),
        (PUT_COMMAND, stop(session, owner="eve")),
    ]
    for method, request in calls:
        assert await code_of(gateway.call(method, request)) is ErrorCode.NOT_FOUND, method.name  # type: ignore[arg-type]
    assert (await gateway.call(GET_TURN, turn.model_copy(update={"owner": "ada"}))).state == "running"
    assert not (await gateway.call(GET_TURN, turn.model_copy(update={"sid": new_session().sid}))).found
    listed = await gateway.call(LIST_SESSIONS, ListSessionsRequest(owner="eve", namespace="team"))
    assert listed.sessions == ()


async def test_sessions_are_listed_newest_first_in_pages(world: World) -> None:
    gateway = await world.service(Role.GATEWAY)
    made = [new_session(owner="lister") for _ in range(5)]
    for session in made:
        await gateway.call(CREATE_SESSION, CreateSessionRequest(route=session.route))
    agent = await world.agent(made[0].sid, await awake(world, made[0]))
    await say(agent, made[0], "u1", Message.user("hello"))
    expected = [made[0].sid, *(session.sid for session in reversed(made[1:]))]
    seen: list[str] = []
    before: tuple[float, str] | None = None
    more = True
    while more:
        request = ListSessionsRequest(owner="lister", namespace="team", profile="default", before=before, limit=2)
        page = await gateway.call(LIST_SESSIONS, request)
        seen += [found.sid for found in page.sessions]
        before, more = (page.sessions[-1].last_activity, page.sessions[-1].sid), page.more
    assert seen == expected
    newest = await gateway.call(GET_SESSION, OwnedSessionRequest(sid=made[0].sid, owner="lister"))
    assert (newest.turns, newest.running_turns) == (1, 1)
    other = await gateway.call(LIST_SESSIONS, ListSessionsRequest(owner="lister", namespace="elsewhere"))
    assert other.sessions == ()
    await gateway.call(DELETE_SESSION, OwnedSessionRequest(sid=made[0].sid, owner="lister"))
    assert (
        await code_of(gateway.call(GET_SESSION, OwnedSessionRequest(sid=made[0].sid, owner="lister"))) is ErrorCode.NOT_FOUND
    )


async def test_transcripts_come_back_byte_for_byte_and_in_pages_that_fit(world: World) -> None:
    session = new_session()
    agent = await world.agent(session.sid, await awake(world, session))
    odd = Message(role=Speaker.USER, parts=(TextPart(text="\x00 zero,   line, ü, 😀"),))
    big = [Message.assistant(f"{number}" + "y" * 150_000) for number in range(6)]
    await say(agent, session, "u1", odd)
    for number, message in enumerate(big):
        await say(agent, session, f"b{number}", message)
    texts: list[str] = []
    after, more, pages = 0, True, 0
    while more:
        page = await agent.call(LOAD, LoadRequest(conversation=session.conversation, after=after))
        texts += [stored.message.text() for stored in page.messages]
        after, more, pages = page.messages[-1].sequence, page.more, pages + 1
    assert texts == [odd.text(), *(message.text() for message in big)]
    assert pages == 3
    gateway = await world.service(Role.GATEWAY)
    for conversation in (session.conversation, None):
        request = TranscriptRequest(sid=session.sid, owner="ada", conversation=conversation, limit=1)
        first = await gateway.call(TRANSCRIPT, request)
        assert (first.messages[0].message, first.more) == (odd, True)
        rest = await gateway.call(TRANSCRIPT, request.model_copy(update={"after": after - 1}))
        assert (len(rest.messages), rest.more) == (1, False)


async def test_the_first_prompt_of_a_conversation_stays(world: World) -> None:
    session = new_session()
    agent = await world.agent(session.sid, await awake(world, session))
    prompts = [FrozenPrompt(system=text, tools=()) for text in ("first \x00", "second", "x" * MAX_PROMPT_BYTES)]
    for prompt in prompts[:2]:
        request = FreezePromptRequest(conversation=session.conversation, prompt=prompt)
        assert (await agent.call(FREEZE_PROMPT, request)).prompt == prompts[0]
    assert (await agent.call(LOAD, LoadRequest(conversation=session.conversation))).prompt == prompts[0]
    assert (await agent.call(LOAD, LoadRequest(conversation=session.conversation, after=1))).prompt is None
    request = FreezePromptRequest(conversation=session.conversation, prompt=prompts[2])
    assert await code_of(agent.call(FREEZE_PROMPT, request)) is ErrorCode.TOO_LARGE


async def test_a_stop_is_kept_hinted_taken_and_finished_once(world: World) -> None:
    session = new_session()
    epoch = await awake(world, session)
    agent = await world.agent(session.sid, epoch)
    hints: list[bytes] = []

    async def on_hint(message: object) -> None:
        hints.append(message.data)  # type: ignore[attr-defined]

    witness = await world.witness()
    await witness.subscribe(subjects.control(session.sid), cb=on_hint)
    await witness.flush()
    gateway, operator = await world.service(Role.GATEWAY), await world.service(Role.OPERATOR)
    first = await gateway.call(PUT_COMMAND, stop(session))
    assert (await gateway.call(PUT_COMMAND, stop(session))).command_id == first.command_id
    await gateway.call(PUT_COMMAND, stop(session, "k2"))
    await eventually(lambda: len(hints) == 3, "hints")
    for _ in range(2):
        taken = (await agent.call(TAKE_COMMANDS, Empty())).commands
        assert [command.kind for command in taken] == ["stop", "stop"]
    assert taken[0].command_id == first.command_id
    for result in ("Stopped the running turn.", "Nothing was running."):
        await agent.call(FINISH_COMMAND, FinishCommandRequest(command_id=first.command_id, result=result))
    assert (await gateway.call(PUT_COMMAND, stop(session))).result == "Stopped the running turn."
    assert len((await agent.call(TAKE_COMMANDS, Empty())).commands) == 1
    (summary,) = (await operator.call(SUMMARIES, SessionIdsRequest(sids=(session.sid,)))).sessions
    assert summary.open_commands == 1


async def test_only_a_command_that_gives_work_wakes_a_session_until_it_is_done_or_old(world: World) -> None:
    session, stopped = new_session(), new_session()
    agent = await world.agent(session.sid, await awake(world, session))
    await awake(world, stopped)
    gateway, operator = await world.service(Role.GATEWAY), await world.service(Role.OPERATOR)
    work = stop(session).model_copy(update={"kind": CommandKind.COMPRESS})
    command = await gateway.call(PUT_COMMAND, work)
    await gateway.call(PUT_COMMAND, stop(stopped))
    assert (await operator.call(WAITING_COMMANDS, Empty())).sids == (session.sid,)
    world.rows_change("update commands set created_at = now() - interval '1 hour' where sid = %s", session.sid)
    assert (await operator.call(WAITING_COMMANDS, Empty())).sids == ()
    world.rows_change("update commands set created_at = now() where sid = %s", session.sid)
    await agent.call(FINISH_COMMAND, FinishCommandRequest(command_id=command.command_id, result="done"))
    assert (await operator.call(WAITING_COMMANDS, Empty())).sids == ()


async def test_a_stop_of_yesterday_stops_nothing_today(world: World) -> None:
    session = new_session()
    agent = await world.agent(session.sid, await awake(world, session))
    gateway = await world.service(Role.GATEWAY)
    await gateway.call(PUT_COMMAND, stop(session))
    world.rows_change("update commands set created_at = now() - interval '1 day' where sid = %s", session.sid)
    assert (await agent.call(TAKE_COMMANDS, Empty())).commands == ()
