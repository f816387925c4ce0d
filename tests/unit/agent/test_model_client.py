"""The models service over real HTTP: what it can do to us."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from hermes_agent.model.base import ModelCall
from hermes_agent.model.client import MAX_LINE_BYTES, HttpModelClient
from hermes_agent.model.collect import Answer, collect
from hermes_agent.settings import ModelsToken
from hermes_contracts.errors import ErrorBody, ErrorCode, HermesError
from hermes_contracts.model_api import Finish, FinishReason, ModelRequest, TextDelta

CALL = ModelCall("t1", 1, b'"sys"', b"[]", [b'{"role":"user","parts":[{"type":"text","text":"hi"}]}'])
GOOD = b"".join(e.model_dump_json().encode() + b"\n" for e in (TextDelta(text="hé"), Finish(reason=FinishReason.STOP)))
Script = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Service:
    def __init__(self) -> None:
        self.script: Script = chunked(GOOD)
        self.connections = 0
        self.url = ""
        self.requests: list[tuple[str, bytes]] = []
        self.gone = asyncio.Event()
        self.tasks: set[asyncio.Task[None]] = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.add(asyncio.ensure_future(self.serve(reader, writer)))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while not writer.is_closing():
                    await self.answer(reader, writer)
        finally:
            self.gone.set()
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        body = await reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
        self.requests.append((head, body))
        await self.script(writer)
        await writer.drain()


def chunked(data: bytes, *, end: bool = True, piece: int = 7) -> Script:
    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for start in range(0, len(data), piece):
            part = data[start : start + piece]
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
        if end:
            writer.write(b"0\r\n\r\n")
        else:
            await writer.drain()
            writer.close()

    return script


def plain(status: int, body: bytes) -> Script:
    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))

    return script


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    service = Service()
    server = await asyncio.start_server(service.accept, "127.0.0.1", 0)
    service.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield service
    server.close()
    for task in service.tasks:
        task.cancel()
    await asyncio.gather(*service.tasks, return_exceptions=True)


async def ask(client: HttpModelClient) -> Answer:
    return await collect(client.stream(CALL), lambda _kind, _text: None)


async def test_answers_come_over_one_warm_connection_with_the_newest_token(service: Service) -> None:
    token = ModelsToken("one")
    client = HttpModelClient(service.url, token)
    assert (await ask(client)).text == "hé"
    token.value = "two"
    assert (await ask(client)).usage.model_calls == 1
    await client.close()
    assert service.connections == 1
    assert [("bearer one" in head, "bearer two" in head) for head, _ in service.requests] == [(True, False), (False, True)]
    assert ModelRequest.model_validate_json(service.requests[0][1]).system == "sys"


@pytest.mark.parametrize(
    ("script", "code", "retryable"),
    [
        (chunked(GOOD[:20], end=False), ErrorCode.UNAVAILABLE, True),
        (chunked(GOOD.split(b"\n")[0] + b"\n"), ErrorCode.PROVIDER_PROTOCOL, True),
        (chunked(b"not json\n"), ErrorCode.PROVIDER_PROTOCOL, True),
        (chunked(b"x" * (MAX_LINE_BYTES + 1), piece=65536), ErrorCode.PROVIDER_PROTOCOL, False),
        (plain(401, ErrorBody(code=ErrorCode.UNAUTHENTICATED, message="expired").model_dump_json().encode()),
         ErrorCode.UNAUTHENTICATED, False),
        (plain(503, b"<html>"), ErrorCode.UNAVAILABLE, True),
        (plain(404, b"<html>"), ErrorCode.UNAVAILABLE, False),
        (plain(307, b""), ErrorCode.UNAVAILABLE, False),
    ],
)  # fmt: skip
async def test_every_fault_is_an_error_with_a_code(
    service: Service, script: Script, code: ErrorCode, retryable: bool
) -> None:
    service.script = script
    client = HttpModelClient(service.url, ModelsToken("t"))
    with pytest.raises(HermesError) as caught:
        await ask(client)
    assert (caught.value.code, caught.value.retryable) == (code, retryable)
    await client.close()


async def test_silence_is_a_time_out_and_nobody_there_is_unavailable(service: Service) -> None:
    async def silent(writer: asyncio.StreamWriter) -> None:
        await service.gone.wait()

    service.script = silent
    client = HttpModelClient(service.url, ModelsToken("t"), silence_seconds=0.1)
    with pytest.raises(HermesError) as caught:
        await ask(client)
    assert caught.value.code is ErrorCode.TIMEOUT and caught.value.retryable
    await client.close()
    nobody = HttpModelClient("http://127.0.0.1:9", ModelsToken("t"))
    with pytest.raises(HermesError) as refused:
        await ask(nobody)
    assert refused.value.code is ErrorCode.UNAVAILABLE and refused.value.retryable
    await nobody.close()


async def test_cancelling_a_call_hangs_up_at_once(service: Service) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        first = GOOD.split(b"\n")[0] + b"\n"
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(first), first))
        while True:
            writer.write(b"1\r\n\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.01)

    service.script = endless
    client = HttpModelClient(service.url, ModelsToken("t"))
    heard = asyncio.Event()
    running = asyncio.ensure_future(collect(client.stream(CALL), lambda _kind, _text: heard.set()))
    await heard.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with asyncio.timeout(2):
        await service.gone.wait()
    await client.close()
