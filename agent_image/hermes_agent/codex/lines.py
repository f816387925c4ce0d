"""A command in the sandbox that is spoken with in lines of JSON. What it writes is not believed and is bounded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from hermes_agent.sandbox.execution import ExecStream, Fd
from hermes_agent.sandbox.messages import Exit
from hermes_agent.tools.text import decode

_KEPT_STDERR = 2_000


class NotItsProtocol(Exception):
    """A line that is no JSON object, or longer than a line may be; the text says which."""


class ProgramEnded(Exception):
    """The program is gone; the text says how, with the last thing it wrote to stderr."""


class Piped:
    """The pipes of one running command."""

    def __init__(self, stream: ExecStream, *, max_line_bytes: int) -> None:
        self._stream = stream
        self._max_line_bytes = max_line_bytes
        self._stderr = b""
        self._one_line_at_a_time = asyncio.Lock()

    async def send(self, value: dict[str, object]) -> None:
        """Write one line, waiting while the program does not read. Raises SandboxError."""
        line = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        async with self._one_line_at_a_time:
            await self._stream.send(line)

    async def values(self) -> AsyncIterator[dict[str, object]]:
        """Yield what the program writes. Raises NotItsProtocol, ProgramEnded, SandboxError; never ends by itself."""
        rest = b""
        async for piece in self._stream:
            if isinstance(piece, Exit):
                raise ProgramEnded(self._how(piece))
            if piece.fd is Fd.STDERR:
                self._stderr = (self._stderr + piece.data)[-_KEPT_STDERR:]
                continue
            *lines, rest = (rest + piece.data).split(b"\n") if b"\n" in piece.data else (rest + piece.data,)
            if len(rest) > self._max_line_bytes:
                raise NotItsProtocol(f"a line of more than {self._max_line_bytes} bytes")
            for line in lines:
                if line.strip():
                    yield _value(line)
        raise ProgramEnded("it ended")

    def _how(self, end: Exit) -> str:
        if end.killed:
            how = f"the sandbox killed it: {end.killed}"
        else:
            how = f"exit code {end.code}" if end.signal is None else f"signal {end.signal}"
        said = decode(self._stderr).strip().rpartition("\n")[2].strip()[:200]
        return f"{how}; it said: {said}" if said else how


def _value(line: bytes) -> dict[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise NotItsProtocol("a line that is not JSON") from error
    if not isinstance(value, dict):
        raise NotItsProtocol("a line that is no object")
    return value
