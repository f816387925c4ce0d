"""Pictures come in pages and are what their id says; logins change by compare-and-set."""

from __future__ import annotations

import asyncio
import base64
import os

import pytest

from hermes_contracts.bus_permissions import Role
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import media_id
from hermes_contracts.store_api import (
    DESCRIBE_MEDIA,
    DESCRIPTIONS,
    GET_LOGIN,
    GET_MEDIA,
    MAX_MEDIA_BYTES,
    MEDIA_PAGE_BYTES,
    PURGE,
    PUT_LOGIN,
    PUT_MEDIA,
    DescribeMediaRequest,
    DescriptionsRequest,
    GetMediaRequest,
    LoginReply,
    LoginRequest,
    PutLoginRequest,
    PutMediaRequest,
    SidRequest,
)  # fmt: skip
from hermes_gateway.store.media import MAX_PICTURE_BYTES
from hermes_service.rpc import StoreClient
from tests.integration.store.harness import World, awake, new_session


async def code_of(call: object) -> ErrorCode:
    with pytest.raises(HermesError) as caught:
        await call  # type: ignore[misc]
    return caught.value.code


def pages(sid: str, data: bytes, size: int = MEDIA_PAGE_BYTES, name: str | None = None) -> list[PutMediaRequest]:
    return [
        PutMediaRequest(
            sid=sid, media_id=name or media_id(data), media_type="image/png", total=len(data), offset=start,
            data=base64.b64encode(data[start : start + size]).decode(),
        )
        for start in range(0, len(data), size)
    ]  # fmt: skip


async def read(client: StoreClient, sid: str, name: str) -> bytes:
    data, total = b"", 1
    while len(data) < total:
        page = await client.call(GET_MEDIA, GetMediaRequest(sid=sid, media_id=name, offset=len(data)))
        data, total = data + base64.b64decode(page.data), page.total
    return data


async def test_a_picture_goes_in_and_out_in_pages(world: World) -> None:
    session, data = new_session(), os.urandom(MEDIA_PAGE_BYTES * 2 + 1)
    gateway, models = await world.service(Role.GATEWAY), await world.service(Role.MODELS)
    name = media_id(data)
    for page in pages(session.sid, data):
        assert await code_of(models.call(GET_MEDIA, GetMediaRequest(sid=session.sid, media_id=name))) is ErrorCode.NOT_FOUND
        await gateway.call(PUT_MEDIA, page)
        await gateway.call(PUT_MEDIA, page)
    await gateway.call(PUT_MEDIA, pages(session.sid, data)[0])
    assert await read(models, session.sid, name) == data
    assert world.rows("select count(*) from media_pages where sid = %s", session.sid) == [(3,)]
    agent = await world.agent(session.sid, await awake(world, session))
    assert await read(agent, session.sid, name) == data
    end = GetMediaRequest(sid=session.sid, media_id=name, offset=len(data))
    assert base64.b64decode((await models.call(GET_MEDIA, end)).data) == b""
    operator = await world.service(Role.OPERATOR)
    await operator.call(PURGE, SidRequest(sid=session.sid))
    assert await code_of(models.call(GET_MEDIA, GetMediaRequest(sid=session.sid, media_id=name))) is ErrorCode.NOT_FOUND
    assert world.rows("select 1 from media_pages where sid = %s", session.sid) == []


async def test_an_agent_has_its_own_pictures_only(world: World) -> None:
    mine, other, data = new_session(), new_session(), b"picture"
    agent = await world.agent(mine.sid, await awake(world, mine))
    gateway = await world.service(Role.GATEWAY)
    await gateway.call(PUT_MEDIA, pages(other.sid, data)[0])
    assert await code_of(agent.call(PUT_MEDIA, pages(other.sid, b"forged")[0])) is ErrorCode.FORBIDDEN
    asked = GetMediaRequest(sid=other.sid, media_id=media_id(data))
    assert await code_of(agent.call(GET_MEDIA, asked)) is ErrorCode.FORBIDDEN
    await agent.call(PUT_MEDIA, pages(mine.sid, data)[0])
    zombie = await world.agent(mine.sid, 9)
    assert await code_of(zombie.call(PUT_MEDIA, pages(mine.sid, b"late")[0])) is ErrorCode.FENCED


async def test_the_first_description_of_a_picture_stays(world: World) -> None:
    session, data = new_session(), b"picture"
    agent = await world.agent(session.sid, await awake(world, session))
    models, name = await world.service(Role.MODELS), media_id(data)
    asked = DescriptionsRequest(sid=session.sid, media_ids=(name, media_id(b"other")))
    words = DescribeMediaRequest(media_id=name, description="a cat\x00 \u2764")
    assert await code_of(agent.call(DESCRIBE_MEDIA, words)) is ErrorCode.NOT_FOUND
    await agent.call(PUT_MEDIA, pages(session.sid, data)[0])
    assert (await models.call(DESCRIPTIONS, asked)).descriptions == {}
    kept = await agent.call(DESCRIBE_MEDIA, words)
    again = DescribeMediaRequest(media_id=name, description="a dog")
    assert kept == await agent.call(DESCRIBE_MEDIA, again) == await models.call(DESCRIPTIONS, asked)
    assert list(kept.descriptions) == [name] and kept.descriptions[name].startswith("a cat")
    assert await agent.call(DESCRIPTIONS, asked) == kept

    stranger = new_session()
    other = await world.agent(stranger.sid, await awake(world, stranger))
    assert await code_of(other.call(DESCRIPTIONS, asked)) is ErrorCode.FORBIDDEN
    assert await code_of(other.call(DESCRIBE_MEDIA, again)) is ErrorCode.NOT_FOUND
    zombie = await world.agent(session.sid, 9)
    assert await code_of(zombie.call(DESCRIBE_MEDIA, again)) is ErrorCode.FENCED


async def test_bytes_that_are_not_the_ids_are_forgotten(world: World) -> None:
    session, data = new_session(), os.urandom(1000)
    gateway = await world.service(Role.GATEWAY)
    forged = pages(session.sid, os.urandom(1000), size=600, name=media_id(data))
    await gateway.call(PUT_MEDIA, forged[0])
    assert await code_of(gateway.call(PUT_MEDIA, forged[1])) is ErrorCode.INVALID
    assert world.rows("select 1 from media where sid = %s", session.sid) == []
    assert world.rows("select 1 from media_pages where sid = %s", session.sid) == []
    honest = pages(session.sid, data, size=600)
    assert await code_of(gateway.call(PUT_MEDIA, honest[1])) is ErrorCode.CONFLICT
    broken = honest[0].model_copy(update={"data": "*"})
    assert await code_of(gateway.call(PUT_MEDIA, broken)) is ErrorCode.INVALID
    assert await code_of(gateway.call(PUT_MEDIA, honest[0].model_copy(update={"data": ""}))) is ErrorCode.INVALID
    assert await code_of(gateway.call(PUT_MEDIA, honest[1].model_copy(update={"offset": 900}))) is ErrorCode.INVALID
    for page in honest:
        await asyncio.gather(*(gateway.call(PUT_MEDIA, page) for _ in range(4)))
    assert await read(await world.service(Role.MODELS), session.sid, media_id(data)) == data


async def test_a_session_has_room_for_so_many_bytes(world: World) -> None:
    session = new_session()
    gateway = await world.service(Role.GATEWAY)
    full = MAX_PICTURE_BYTES // MAX_MEDIA_BYTES
    world.rows_change(
        "insert into media select %s, 'm' || lpad(chr(96 + n), 25, 'a'), 'image/png', %s, %s "
        "from generate_series(1, %s) n",
        session.sid, MAX_MEDIA_BYTES, MAX_MEDIA_BYTES, full,
    )  # fmt: skip
    with pytest.raises(HermesError) as caught:
        await gateway.call(PUT_MEDIA, pages(session.sid, b"one more")[0])
    assert caught.value.code is ErrorCode.TOO_LARGE
    assert str(MAX_PICTURE_BYTES) in caught.value.message
    await gateway.call(PUT_MEDIA, pages(new_session().sid, b"one more")[0])


async def test_a_login_is_changed_by_one_of_many(world: World) -> None:
    models = await world.service(Role.MODELS)
    login = os.urandom(32).hex()
    assert await models.call(GET_LOGIN, LoginRequest(login=login)) == LoginReply(revision=0, sealed="")
    for expected in (0, 1):
        calls = [PutLoginRequest(login=login, expected=expected, sealed=f"{expected}/{n}") for n in range(5)]
        results = await asyncio.gather(*(models.call(PUT_LOGIN, call) for call in calls), return_exceptions=True)
        won = [result for result in results if isinstance(result, LoginReply)]
        assert len(won) == 1
        assert all(result.code is ErrorCode.CONFLICT for result in results if isinstance(result, HermesError))
        assert await models.call(GET_LOGIN, LoginRequest(login=login)) == won[0]
        assert won[0].revision == expected + 1
        again = PutLoginRequest(login=login, expected=expected, sealed=won[0].sealed)
        assert await models.call(PUT_LOGIN, again) == won[0]
    assert await models.call(GET_LOGIN, LoginRequest(login=os.urandom(32).hex())) == LoginReply(revision=0, sealed="")
