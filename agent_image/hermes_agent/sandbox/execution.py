"""A running foreground command, and what is kept of a finished one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Self

from hermes_agent.sandbox.connection import Channel
from hermes_agent.sandbox.errors import SandboxGone, SandboxTimeout
from hermes_agent.sandbox.frames import Kind
from hermes_agent.sandbox.messages import Exit, TerminalSize, parse

MARGIN_SECONDS = 15.0
"""How much later than a command's own timeout its result may come: grace, clean-up and a busy machine."""


class Fd(Enum):
    """Which output a piece is from."""

    STDOUT = 1
    STDERR = 2


@dataclass(frozen=True, slots=True)
class Output:
    """A piece of output, bytes as the command wrote them."""

    fd: Fd
    data: bytes


@dataclass(frozen=True, slots=True)
class ExecResult:
    """A finished command. Of an output beyond the limit the first 40 % and the last 60 % are kept."""

    stdout: bytes
    stderr: bytes
    exit: Exit
    stdout_gap: int = 0
    """Offset in `stdout` where `exit.dropped[0]` bytes are missing; meaningless when none are."""
    stderr_gap: int = 0

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with code 0."""
        return self.exit.code == 0 and not self.exit.killed

    def text(self, *, stderr: bool = False) -> str:
        """One output as text; bytes that are not UTF-8 are replaced, a gap is told."""
        data = self.stderr if stderr else self.stdout
        gap = self.stderr_gap if stderr else self.stdout_gap
        dropped = self.exit.dropped[1 if stderr else 0]
        if not dropped:
            return data.decode("utf-8", "replace")
        head, tail = data[:gap].decode("utf-8", "replace"), data[gap:].decode("utf-8", "replace")
        return f"{head}\n... [{dropped} bytes left out] ...\n{tail}"


class ExecStream:
    """A running command: iterate for its output, then `exit` is set. Leaving the context kills what still runs."""

    def __init__(self, channel: Channel, timeout_seconds: float | None, margin_seconds: float = MARGIN_SECONDS) -> None:
        self.exit: Exit | None = None
        self._channel = channel
        self._deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds + margin_seconds

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.release()

    async def __aiter__(self) -> AsyncIterator[Output | Exit]:
        while self.exit is None:
            kind, payload = await self._receive()
            if kind is Kind.RESULT:
                self.exit = parse(Exit, payload)
                yield self.exit
            else:
                yield Output(Fd.STDOUT if kind is Kind.STDOUT else Fd.STDERR, payload)

    async def _receive(self) -> tuple[Kind, bytes]:
        if self._deadline is None:
            return await self._channel.receive()
        try:
            async with asyncio.timeout(self._deadline - time.monotonic()):
                return await self._channel.receive()
        except TimeoutError as error:
            self._channel.release()
            raise SandboxTimeout("the command's time is over and the sandbox has not reported its end") from error

    async def send(self, data: bytes) -> None:
        """Write to the command's input, waiting while it does not read."""
        await self._channel.send_input(data)

    def close_input(self) -> None:
        """End the command's input."""
        self._channel.end_input()

    def signal(self, number: int) -> None:
        """Signal the command's process group; 9 kills its whole tree."""
        self._channel.control({"op": "signal", "signal": int(number)})

    def resize(self, size: TerminalSize) -> None:
        """Tell a pseudo-terminal its new size."""
        self._channel.control({"op": "resize", **size.model_dump()})

    def kill(self) -> None:
        """Kill the command and everything it started; no result follows."""
        self._channel.release()
        self._channel.fail(SandboxGone("the command was cancelled"))


async def collect(stream: ExecStream, head_bytes: int) -> ExecResult:
    """Take in a command whose output the daemon limits; where each output's gap is follows from `head_bytes`."""
    pieces: dict[Fd, list[bytes]] = {Fd.STDOUT: [], Fd.STDERR: []}
    async for item in stream:
        if isinstance(item, Output):
            pieces[item.fd].append(item.data)
    assert stream.exit is not None
    return ExecResult(b"".join(pieces[Fd.STDOUT]), b"".join(pieces[Fd.STDERR]), stream.exit, head_bytes, head_bytes)
