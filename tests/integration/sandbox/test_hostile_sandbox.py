"""The other side has been taken over: the agent keeps its memory, its time and its other work."""

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes_agent.sandbox import (
    ExecRequest,
    Invalid,
    ProtocolError,
    Sandbox,
    SandboxError,
    SandboxGone,
    SandboxTimeout,
    SearchQuery,
    Settling,
    TooLarge,
)

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HELLO = b'{"version":1,"workspace":"/w"}'


def frame(kind: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">IBI", len(payload), kind, stream) + payload


@asynccontextmanager
async def taken_over(path: Path, script: Script) -> AsyncIterator[Sandbox]:
    """A server that greets, reads one request and then does as the script says."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())
        writer.write(frame(0, 0, HELLO))
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await script(reader, writer)
            await reader.read()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    serving: list[asyncio.Task[None] | None] = []
    server = await asyncio.start_unix_server(serve, str(path))
    sandbox = Sandbox(str(path), connect_seconds=5, margin_seconds=0.2)
    try:
        yield sandbox
    finally:
        await sandbox.close()
        server.close()
        await asyncio.wait_for(asyncio.gather(*filter(None, serving)), 10)


def says(*frames: bytes) -> Script:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b'"op"')
        writer.write(b"".join(frames))
        await writer.drain()

    return script


EXIT = {"code": 0, "signal": None, "killed": "", "cwd": "/w", "duration_ms": 1, "dropped": [0, 0]}


@pytest.mark.parametrize(
    "frames",
    [
        [b"HTTP/1.1 200 OK\r\n\r\n"],
        [struct.pack(">IBI", 2**31, 2, 1)],
        [frame(1, 1, b"{}")],
        [frame(0, 1, HELLO)],
        [frame(0, 0, HELLO)],
        [frame(6, 1, struct.pack(">I", 1))],
        [frame(6, 1, b"12")],
        [frame(2, 1, b"")],
        [frame(8, 1, b"[" * 100_000)],
        [frame(8, 1, json.dumps({**EXIT, "code": -5}).encode())],
        [frame(8, 1, json.dumps({**EXIT, "cwd": "x" * 100_000}).encode())],
        [frame(8, 1, json.dumps({**EXIT, "killed": "by aliens"}).encode())],
        [frame(9, 1, b"{}")],
        [frame(9, 0, b'{"code":"x","message":"y"}')],
        [frame(2, 1, b"x" * 200_000)],
    ],
    ids=range(15),
)
async def test_whatever_it_sends_a_call_ends_with_a_typed_error(tmp_path: Path, frames: list[bytes]) -> None:
    async with taken_over(tmp_path / "s", says(*frames)) as sandbox:
        with pytest.raises((ProtocolError, SandboxTimeout)):
            await sandbox.run(ExecRequest(command="x", timeout_seconds=0.1))


async def test_output_without_end_is_cut_off(tmp_path: Path) -> None:
    async with taken_over(tmp_path / "s", says(*[frame(2, 1, b"x" * 200_000)] * 100)) as sandbox:
        with pytest.raises(ProtocolError, match="more output"):
            await sandbox.read_file("f", max_bytes=1000)


async def test_one_byte_more_than_asked_for_tells_of_the_rest(tmp_path: Path) -> None:
    info = b'{"type":"file","size":5000,"mtime_ns":0,"mode":420}'
    async with taken_over(tmp_path / "s", says(frame(2, 1, b"x" * 1001), frame(8, 1, info))) as sandbox:
        with pytest.raises(TooLarge):
            await sandbox.read_file("f", max_bytes=1000)


async def test_silence_ends_with_the_commands_time(tmp_path: Path) -> None:
    async with taken_over(tmp_path / "s", says()) as sandbox:
        with pytest.raises(SandboxTimeout, match="not reported its end"):
            await sandbox.run(ExecRequest(command="x", timeout_seconds=0.1))


async def test_a_result_is_not_believed_about_other_calls(tmp_path: Path) -> None:
    async with taken_over(tmp_path / "s", says(frame(8, 77, json.dumps(EXIT).encode()))) as sandbox:
        with pytest.raises(SandboxTimeout):
            await sandbox.run(ExecRequest(command="x", timeout_seconds=0.1))


async def test_hits_that_are_none_are_refused(tmp_path: Path) -> None:
    for line in (b'{"path": 5}\n', b"x" * 70_000):
        path = tmp_path / f"s{len(line)}"
        async with taken_over(path, says(frame(2, 1, line))) as sandbox:
            with pytest.raises(Invalid):
                await sandbox.search(SearchQuery(pattern="x", timeout_seconds=1))


async def test_a_peer_of_another_version_is_told_apart(tmp_path: Path) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frame(0, 0, b'{"version":2,"workspace":"/w"}'))
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ended.set()

    ended = asyncio.Event()
    server = await asyncio.start_unix_server(greet, str(tmp_path / "s"))
    with pytest.raises(ProtocolError, match="version 2"):
        await Sandbox.connect(str(tmp_path / "s"), timeout=5)
    server.close()
    await asyncio.wait_for(ended.wait(), 5)


async def test_no_sandbox_at_all_is_told_within_the_time_given(tmp_path: Path) -> None:
    with pytest.raises(SandboxTimeout, match="is sandboxd running"):
        await Sandbox.connect(str(tmp_path / "absent"), timeout=0.1)


async def test_a_sandbox_that_hangs_up_is_gone(tmp_path: Path) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b'"op"')
        writer.close()

    async with taken_over(tmp_path / "s", hang_up) as sandbox:
        with pytest.raises(SandboxGone, match="files in the workspace are kept") as caught:
            await sandbox.run(ExecRequest(command="x"))
    assert isinstance(caught.value, SandboxError)
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("frames", "error"),
    [
        ([frame(2, 1, b'{"path":"f","type":"socket"}\n')], ProtocolError),
        ([frame(2, 1, b'{"path":"' + b"x" * 5000 + b'","type":"file"}\n')], ProtocolError),
        ([frame(2, 1, b"x" * 100_000)], ProtocolError),
        ([frame(2, 1, b"\n" * 200_001)], TooLarge),
        ([frame(2, 1, b'{"path":"f","type":"fi'), frame(8, 1, json.dumps(EXIT).encode())], ProtocolError),
        ([frame(8, 1, json.dumps({**EXIT, "code": 1}).encode())], ProtocolError),
        ([frame(8, 1, json.dumps({**EXIT, "killed": "timeout"}).encode())], SandboxTimeout),
    ],
    ids=range(7),
)
async def test_a_listing_that_is_none_ends_with_a_typed_error(
    tmp_path: Path, frames: list[bytes], error: type[SandboxError]
) -> None:
    async with taken_over(tmp_path / "s", says(*frames)) as sandbox:
        with pytest.raises(error):
            await sandbox.tree()


async def test_names_that_were_not_settled_are_no_success(tmp_path: Path) -> None:
    async with taken_over(tmp_path / "s", says(frame(8, 1, b'{"settled":0}'))) as sandbox:
        with pytest.raises(ProtocolError, match="did not do all"):
            await sandbox.settle([Settling(path="a", type="directory")])
