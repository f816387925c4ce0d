"""Files go with the answer of the turn that offered them, to its owner alone; homes are found by person and agent."""

from __future__ import annotations

import base64

import pytest

from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Role
from hermes_contracts.envelopes import Event, Outbound, Target
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import media_id
from hermes_contracts.store_api import (
    BEGIN_DELIVERY,
    COMMIT,
    FIND_HOME,
    GET_FILE,
    GET_MEDIA,
    LIST_FILES,
    LIST_HOMES,
    MAX_TURN_FILES,
    OFFER_FILE,
    OPEN_TURN,
    PURGE,
    PUT_MEDIA,
    SET_HOME,
    BeginDeliveryRequest,
    CommitRequest,
    FileRequest,
    FilesRequest,
    GetMediaRequest,
    HomeRequest,
    HomesRequest,
    OfferFileRequest,
    OpenTurnRequest,
    PutMediaRequest,
    SetHomeRequest,
    SidRequest,
)  # fmt: skip
from hermes_service.rpc import StoreClient
from tests.integration.store.harness import Session, World, awake, eventually, new_session


async def code_of(call: object) -> ErrorCode:
    with pytest.raises(HermesError) as caught:
        await call  # type: ignore[misc]
    return caught.value.code


async def opened(world: World, session: Session, *, expected: int = 0) -> tuple[StoreClient, str]:
    agent = await world.agent(session.sid, await awake(world, session, expected))
    request = OpenTurnRequest(inbound=session.inbound("u1"), ack_subject=f"a{expected}", stream_sequence=1)
    return agent, (await agent.call(OPEN_TURN, request)).turn_id


async def store_bytes(agent: StoreClient, session: Session, data: bytes) -> str:
    name = media_id(data)
    page = PutMediaRequest(
        sid=session.sid, media_id=name, media_type="application/octet-stream", total=len(data), offset=0,
        data=base64.b64encode(data).decode(),
    )  # fmt: skip
    await agent.call(PUT_MEDIA, page)
    return name


def offer(turn_id: str, medium: str, name: str = "report.csv", **more: str) -> OfferFileRequest:
    return OfferFileRequest(**{"turn_id": turn_id, "media_id": medium, "name": name, "media_type": "text/csv", **more})


async def test_files_go_behind_the_answer_whoever_commits_it(world: World) -> None:
    session = new_session()
    witness = await world.witness()
    parts: list[Outbound] = []
    events: list[Event] = []

    async def on_part(message: object) -> None:
        parts.append(Outbound.model_validate_json(message.data))  # type: ignore[attr-defined]

    async def on_event(message: object) -> None:
        events.append(Event.model_validate_json(message.data))  # type: ignore[attr-defined]

    await witness.subscribe(subjects.outbound("webhook", session.sid), cb=on_part)
    await witness.subscribe(subjects.event(session.sid), cb=on_event)
    await witness.flush()
    agent, turn_id = await opened(world, session)
    medium = await store_bytes(agent, session, b"a,b\n")
    first = (await agent.call(OFFER_FILE, offer(turn_id, medium, caption="Numbers"))).file
    assert (await agent.call(OFFER_FILE, offer(turn_id, medium, caption="Numbers"))).file == first, "again is the same"
    agent, _ = await opened(world, session, expected=1)
    second = (await agent.call(OFFER_FILE, offer(turn_id, medium, "again.csv"))).file
    commit = CommitRequest(turn_id=turn_id, step=0, messages=(), outcome="done", reply="There.", files=True)
    await agent.call(COMMIT, commit)
    await eventually(lambda: len(parts) == 3 and len(events) >= 2, "the parts and the event")
    assert [(part.part, part.parts, part.text, part.file) for part in parts] == [
        (1, 3, "There.", None), (2, 3, "Numbers", first), (3, 3, "", second),
    ]  # fmt: skip
    assert events[-1].data["files"] == [file.model_dump(exclude={"media_id"}) for file in (first, second)]
    gateway = await world.service(Role.GATEWAY)
    begun = await gateway.call(BEGIN_DELIVERY, BeginDeliveryRequest(delivery_id=parts[1].delivery_id, holder="g"))
    assert begun.state == "waiting", "a file waits for the text before it"
    page = await gateway.call(GET_MEDIA, GetMediaRequest(sid=session.sid, media_id=medium))
    assert base64.b64decode(page.data) == b"a,b\n"


async def test_what_was_not_asked_for_in_the_commit_is_not_sent(world: World) -> None:
    session = new_session("slack")
    agent, turn_id = await opened(world, session)
    await agent.call(OFFER_FILE, offer(turn_id, await store_bytes(agent, session, b"x")))
    await agent.call(COMMIT, CommitRequest(turn_id=turn_id, step=0, messages=(), outcome="done", reply="No."))
    assert world.rows("select part, parts from deliveries where sid = %s", session.sid) == [(1, 1)]


async def test_callers_of_the_api_fetch_files_themselves(world: World) -> None:
    session = new_session("api")
    agent, turn_id = await opened(world, session)
    file = (await agent.call(OFFER_FILE, offer(turn_id, await store_bytes(agent, session, b"x")))).file
    await agent.call(COMMIT, CommitRequest(turn_id=turn_id, step=0, messages=(), outcome="done", reply="Ok.", files=True))
    assert world.rows("select part from deliveries where sid = %s", session.sid) == []
    gateway = await world.service(Role.GATEWAY)
    (listed,) = (await gateway.call(LIST_FILES, FilesRequest(sid=session.sid, owner="ada"))).files
    assert (listed.file, listed.turn_id) == (file, turn_id)
    asked = FileRequest(sid=session.sid, owner="ada", file_id=file.id)
    assert (await gateway.call(GET_FILE, asked)).file == file
    assert await code_of(gateway.call(GET_FILE, asked.model_copy(update={"owner": "eve"}))) is ErrorCode.NOT_FOUND
    assert await code_of(gateway.call(GET_FILE, asked.model_copy(update={"file_id": "fnone"}))) is ErrorCode.NOT_FOUND
    assert await code_of(gateway.call(LIST_FILES, FilesRequest(sid=session.sid, owner="eve"))) is ErrorCode.NOT_FOUND
    operator = await world.service(Role.OPERATOR)
    await operator.call(PURGE, SidRequest(sid=session.sid))
    assert world.rows("select 1 from files where sid = %s", session.sid) == []


async def test_offers_are_bounded_and_fenced(world: World) -> None:
    session = new_session()
    agent, turn_id = await opened(world, session)
    medium = await store_bytes(agent, session, b"x")
    missing = offer(turn_id, "m" + "a" * 25)
    assert await code_of(agent.call(OFFER_FILE, missing)) is ErrorCode.NOT_FOUND
    for name in ("a/b", "a\nb", "x" * 121):
        request = OfferFileRequest.model_construct(**{**offer(turn_id, medium).model_dump(), "name": name})
        assert await code_of(agent.call(OFFER_FILE, request)) is ErrorCode.INVALID
    assert await code_of(agent.call(OFFER_FILE, offer(turn_id, medium, media_type="nonsense"))) is ErrorCode.INVALID
    assert await code_of(agent.call(OFFER_FILE, offer("tnone", medium))) is ErrorCode.NOT_FOUND
    await agent.call(OFFER_FILE, offer(turn_id, medium))
    other = await store_bytes(agent, session, b"y")
    assert await code_of(agent.call(OFFER_FILE, offer(turn_id, other))) is ErrorCode.CONFLICT
    for number in range(1, MAX_TURN_FILES):
        await agent.call(OFFER_FILE, offer(turn_id, medium, f"{number}"))
    assert await code_of(agent.call(OFFER_FILE, offer(turn_id, medium, "one too many"))) is ErrorCode.TOO_LARGE
    await awake(world, session, 1)
    assert await code_of(agent.call(OFFER_FILE, offer(turn_id, medium, "late"))) is ErrorCode.FENCED


async def test_a_home_is_a_persons_own_and_the_last_one_counts(world: World) -> None:
    session = new_session("cron", owner="cron:team/brief")
    await awake(world, session)
    gateway = await world.service(Role.GATEWAY)
    slack = Target(channel="slack", account="T1.A1", chat="D1")
    telegram = Target(channel="telegram", account="42", chat="7", thread="3")

    async def home(owner: str = "ada", channel: str = "") -> tuple[Target, ...]:
        return (await gateway.call(FIND_HOME, HomeRequest(sid=session.sid, owner=owner, channel=channel))).places

    def setting(place: Target | None, channel: str, **changes: str) -> SetHomeRequest:
        facts = {"owner": "ada", "namespace": "team", "profile": "default", **changes}
        return SetHomeRequest(channel=channel, place=place, **facts)

    assert await home() == ()
    await gateway.call(SET_HOME, setting(slack, "slack"))
    await gateway.call(SET_HOME, setting(telegram, "telegram"))
    await gateway.call(SET_HOME, setting(slack, "slack", owner="eve", profile="other"))
    await gateway.call(SET_HOME, setting(slack, "slack", owner="eve", namespace="elsewhere"))
    assert (await home(), await home(channel="slack"), await home("eve")) == ((telegram,), (slack,), ())
    moved = replace_chat(slack, "D2")
    await gateway.call(SET_HOME, setting(moved, "slack"))
    listed = await gateway.call(LIST_HOMES, HomesRequest(owner="ada", namespace="team", profile="default"))
    assert listed.places == (moved, telegram)
    await gateway.call(SET_HOME, setting(None, "slack"))
    assert (await home(), await home(channel="slack")) == ((telegram,), ())


def replace_chat(place: Target, chat: str) -> Target:
    return place.model_copy(update={"chat": chat})
