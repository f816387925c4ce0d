"""The terminal client as a process of its own, at a keyboard or in a pipe, against the whole product."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from local_stack.runner import LocalRunner
from local_stack.stack import Stack, running_stack, stack_folder

ROOT = Path(__file__).resolve().parents[3]
_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[()][A-Z0-9]|[=>78])")


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


def _environment(home: Path, stack: Stack, changes: dict[str, str]) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": f"{ROOT / 'libs'}:{ROOT / 'cli'}",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "KUBECONFIG": str(home / "no-cluster-here"),
        "HERMES_URL": stack.api_url,
        "HERMES_API_KEY": stack.api_key,
        **changes,
    }


@dataclass
class Client:
    """Runs `hermes`. An environment variable that is set to nothing is as good as not set."""

    stack: Stack
    home: Path

    async def run(self, *arguments: str, stdin: str = "", env: dict[str, str] | None = None) -> Done:
        """Run a command in a pipe and return how it ended."""
        async with self.started(*arguments, env=env) as process:
            out, err = await process.communicate(stdin.encode())
        assert process.returncode is not None
        done = Done(process.returncode, out.decode(), err.decode())
        assert self.stack.api_key not in done.out + done.err, "the key is never printed"
        assert "Traceback" not in done.err, done.err
        return done

    @asynccontextmanager
    async def started(self, *arguments: str, env: dict[str, str] | None = None) -> AsyncIterator[asyncio.subprocess.Process]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "hermes_cli", *arguments,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env=_environment(self.home, self.stack, env or {}),
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    @asynccontextmanager
    async def keyboard(self, *arguments: str) -> AsyncIterator[Keyboard]:
        """Run a command at a terminal of 100 columns and 30 lines."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "hermes_cli", *arguments,
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env=_environment(self.home, self.stack, {}),
        )  # fmt: skip
        os.close(theirs)
        board = Keyboard(ours, process)
        try:
            with board.listening():
                yield board
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            os.close(ours)


@dataclass
class Keyboard:
    """A person at a terminal: types, and reads what has been written since they looked last."""

    master: int
    process: asyncio.subprocess.Process
    _raw: bytearray = field(default_factory=bytearray)
    _seen: int = 0
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        loop.add_reader(self.master, self._read)
        try:
            yield
        finally:
            loop.remove_reader(self.master)

    def _read(self) -> None:
        try:
            piece = os.read(self.master, 65536)
        except OSError:
            piece = b""
        if not piece:
            asyncio.get_running_loop().remove_reader(self.master)
        if b"\x1b[6n" in piece:
            # Where the cursor is, as a terminal says when it is asked.
            os.write(self.master, b"\x1b[1;1R")
        self._raw += piece
        self._more.set()

    @property
    def text(self) -> str:
        """Everything that was written, without what moves the cursor."""
        return _ESCAPES.sub("", self._raw.decode(errors="replace"))

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    async def until(self, words: str, seconds: float = 25) -> None:
        """Wait until something new says this."""
        try:
            async with asyncio.timeout(seconds):
                while words not in self.text[self._seen :]:
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError:
            pytest.fail(f"waited for {words!r}; the terminal says:\n{self.text[self._seen :][-3000:]}")
        self._seen += self.text[self._seen :].index(words) + len(words)

    async def ended(self, seconds: float = 20) -> int:
        async with asyncio.timeout(seconds):
            return await self.process.wait()


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def stack() -> AsyncIterator[Stack]:
    with stack_folder() as folder:
        async with running_stack(folder) as running:
            task = asyncio.create_task(LocalRunner(running).run())
            try:
                yield running
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


@pytest.fixture
def hermes(stack: Stack, tmp_path: Path) -> Client:
    return Client(stack, tmp_path)


def script(*steps: dict[str, Any], said: str = "please") -> str:
    """Return a message that the scripted model answers in these steps."""
    return "\n".join([said, *(f"#script {json.dumps(step)}" for step in steps)])


@pytest.fixture(name="script")
def script_fixture() -> Any:
    return script


class Cutter:
    """A way to the gateway that breaks: closes every connection once so many bytes of events have passed."""

    def __init__(self, port: int, words: bytes) -> None:
        self._port = port
        self._words = words
        self.cuts = 0
        self.asked: list[bytes] = []
        """Heads of the requests."""
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers |= {writer, there_writer}
        with contextlib.suppress(OSError, asyncio.CancelledError, ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, there_writer, asking=True))
                group.create_task(self._pump(there_reader, writer, asking=False))
        for each in (writer, there_writer):
            each.close()

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, asking: bool) -> None:
        while piece := await source.read(65536):
            if asking:
                self.asked.append(piece)
            target.write(piece)
            await target.drain()
            if not asking and self._words in piece and not self.cuts:
                self.cuts += 1
                for each in self._writers:
                    each.transport.abort()
                return
        target.close()


@pytest.fixture
def cutting(stack: Stack) -> Any:
    @asynccontextmanager
    async def opened(words: bytes) -> AsyncIterator[tuple[str, Cutter]]:
        cutter = Cutter(stack.ports["api"], words)
        server = await asyncio.start_server(cutter.handle, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", cutter

    return opened
