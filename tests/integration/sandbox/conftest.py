"""A real sandboxd in a temporary directory, for each test its own."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from hermes_agent.sandbox import Sandbox

DAEMON = Path(__file__).parents[3] / "sandbox_image"


class Daemon:
    """One sandboxd process and how to reach it."""

    def __init__(self, folder: Path, options: tuple[str, ...]) -> None:
        self.socket = str(folder / "exec.sock")
        self.workspace = folder / "workspace"
        self.workspace.mkdir(exist_ok=True)
        self.log = folder / "sandboxd.log"
        self._options = options
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-S", "-E", str(DAEMON), "--socket", self.socket,
                "--workspace", str(self.workspace), *self._options, stderr=log,
            )  # fmt: skip

    async def stop(self, number: int = signal.SIGTERM) -> int:
        assert self._process
        if self._process.returncode is None:
            self._process.send_signal(number)
        return await asyncio.wait_for(self._process.wait(), 20)

    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


Start = Callable[..., Awaitable[tuple[Daemon, Sandbox]]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Start a sandboxd with options; gives it and a connected client."""
    daemons: list[Daemon] = []
    clients: list[Sandbox] = []

    async def begin(*options: str) -> tuple[Daemon, Sandbox]:
        folder = tmp_path / str(len(daemons))
        folder.mkdir()
        daemon = Daemon(folder, options)
        daemons.append(daemon)
        await daemon.start()
        clients.append(await Sandbox.connect(daemon.socket, timeout=20))
        return daemon, clients[-1]

    yield begin
    for client in clients:
        await client.close()
    for daemon in daemons:
        assert await daemon.stop() == 0, daemon.log.read_text()


@pytest.fixture
async def sandbox(start: Start) -> Sandbox:
    """A client of a sandboxd without limits."""
    return (await start())[1]


async def eventually(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Wait until the condition holds; fails after the deadline."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)
