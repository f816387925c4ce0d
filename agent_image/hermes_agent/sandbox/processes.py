"""Background processes: started with a connection, gone with it, at most 64 a sandbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hermes_agent.sandbox.messages import ExecRequest, LogRange, ProcessInfo, ProcessList, parse

Call = Callable[[dict[str, object], float], Awaitable[tuple[bytes, bytes]]]
"""Sends a request with a deadline in seconds; gives (output, result)."""

ANSWER_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Log:
    """A part of the output, stdout and stderr in the order they were written; `info.start` is its absolute offset."""

    data: bytes
    info: LogRange


class Processes:
    """The registry, `Sandbox.processes`.

    Every method raises NotFound for an unknown id and SandboxGone when the connection is lost.
    """

    def __init__(self, call: Call) -> None:
        self._call = call

    async def start(self, request: ExecRequest) -> ProcessInfo:
        """Start a command in the background.

        Raises:
            Busy: 64 are running.
        """
        return await self._info(request.wire(background=True))

    async def list(self) -> tuple[ProcessInfo, ...]:
        """All of them, oldest first; finished ones stay for half an hour."""
        _, result = await self._call({"op": "process", "action": "list"}, ANSWER_SECONDS)
        return parse(ProcessList, result).processes

    async def poll(self, process_id: str) -> ProcessInfo:
        """How one stands."""
        return await self._info({"op": "process", "action": "poll", "id": process_id})

    async def log(self, process_id: str, *, offset: int | None = None, limit: int = 50_000) -> Log:
        """Output from the absolute byte `offset`, by default the last `limit` bytes; 200,000 are kept."""
        body: dict[str, object] = {"op": "process", "action": "log", "id": process_id, "limit": limit}
        if offset is not None:
            body["offset"] = offset
        data, result = await self._call(body, ANSWER_SECONDS)
        return Log(data, parse(LogRange, result))

    async def wait(self, process_id: str, timeout_seconds: float) -> ProcessInfo:
        """Wait until it ends, or for that long; `running` tells which."""
        body: dict[str, object] = {"op": "process", "action": "wait", "id": process_id}
        return await self._info({**body, "timeout_ms": int(timeout_seconds * 1000)}, timeout_seconds + ANSWER_SECONDS)

    async def kill(self, process_id: str, *, signal: int = 15, timeout_seconds: float = 5.0) -> ProcessInfo:
        """Signal it and wait for the end. SIGTERM turns into SIGKILL for the whole tree after two seconds."""
        body: dict[str, object] = {"op": "process", "action": "kill", "id": process_id, "signal": signal}
        return await self._info({**body, "timeout_ms": int(timeout_seconds * 1000)}, timeout_seconds + ANSWER_SECONDS)

    async def write(self, process_id: str, data: bytes) -> ProcessInfo:
        """Write to its input, which it must have been started with (`stdin` or `pty`).

        Raises:
            Busy: it does not read.
            Invalid: it has no input.
        """
        return await self._info({"op": "process", "action": "write", "id": process_id, "data": data.decode("latin-1")})

    async def close(self, process_id: str) -> ProcessInfo:
        """End its input."""
        return await self._info({"op": "process", "action": "close", "id": process_id})

    async def _info(self, body: dict[str, object], timeout: float = ANSWER_SECONDS) -> ProcessInfo:
        _, result = await self._call(body, timeout)
        return parse(ProcessInfo, result)
