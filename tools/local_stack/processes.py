"""Child processes with a log file each: started, waited for, killed, and never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class StartFailed(Exception):
    """A process that ended, or did not become ready in time; the message holds the end of its log."""


def free_port() -> int:
    """Return a TCP port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass
class Process:
    """One child: how to start it, and how it is doing."""

    name: str
    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    _child: asyncio.subprocess.Process | None = None

    @property
    def log_path(self) -> Path:
        """File that its output goes to."""
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> int:
        """Process id of the running child."""
        if self._child is None:
            raise StartFailed(f"{self.name} is not running")
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether the child lives."""
        return self._child is not None and self._child.returncode is None

    async def start(self) -> None:
        """Start the child; its output is appended to the log."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._child = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ.get("PATH", os.defpath), **self.environment},
                cwd=self.cwd,
                preexec_fn=_die_with_parent,
            )

    async def wait(self) -> int:
        """Wait for the end; returns the exit code."""
        if self._child is None:
            return 0
        return await self._child.wait()

    async def stop(self, patience_seconds: float = 10.0) -> None:
        """SIGTERM, and SIGKILL when patience is over."""
        if self._child is None or self._child.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._child.terminate()
        try:
            async with asyncio.timeout(patience_seconds):
                await self._child.wait()
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """SIGKILL."""
        if self._child is not None and self._child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._child.kill()
            await self._child.wait()

    def tail(self, lines: int = 30) -> str:
        """Return the end of the log."""
        if not self.log_path.exists():
            return ""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    async def until(self, ready: Callable[[], Awaitable[bool]], deadline_seconds: float = 30.0) -> None:
        """Wait until `ready` says so. Raises StartFailed when the child ends or the deadline passes."""
        deadline = time.monotonic() + deadline_seconds
        while not await ready():
            if not self.running:
                raise StartFailed(f"{self.name} ended with code {await self.wait()}:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise StartFailed(f"{self.name} was not ready in {deadline_seconds:.0f} s:\n{self.tail()}")
            await asyncio.sleep(0.02)


async def http_ok(port: int, path: str) -> bool:
    """Tell whether a local HTTP server answers 200."""
    try:
        async with asyncio.timeout(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                await writer.drain()
                return b" 200 " in await reader.readline()
            finally:
                writer.close()
                await writer.wait_closed()
    except (OSError, TimeoutError):
        return False


async def tcp_open(port: int) -> bool:
    """Tell whether something listens on a local port."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True
