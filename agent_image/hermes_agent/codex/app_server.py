"""The app server's side of the talk: JSON-RPC without its version member, one message a line, requests both ways."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import structlog

from hermes_agent.codex.lines import NotItsProtocol, Piped, ProgramEnded
from hermes_agent.sandbox.errors import SandboxError

log = structlog.get_logger()

MAX_LINE_BYTES = 4 * 1024 * 1024
ANSWER_SECONDS = 60.0
"""How long the program may take to answer a request; its work is no answer, it is told in notifications."""
_WAITING = 256
_MAX_NAME = 128
_NOT_HERE = {"code": -32601, "message": "this client does not serve that"}


class Refused(Exception):
    """The program answered a request with an error; the text is the program's."""


@dataclass(frozen=True)
class Notice:
    """A notification, or a request of the program's when `request_id` is there."""

    method: str
    params: dict[str, object]
    request_id: str | int | None = None


class AppServer:
    """One running app server. `pump` has to run beside whoever uses it."""

    def __init__(self, piped: Piped, *, answer_seconds: float = ANSWER_SECONDS) -> None:
        self._piped = piped
        self._answer_seconds = answer_seconds
        self._count = 0
        self._asked: dict[int, asyncio.Future[dict[str, object]]] = {}
        self._notices: asyncio.Queue[Notice] = asyncio.Queue(_WAITING)
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def pump(self) -> None:
        """Read until cancelled; whatever goes wrong reaches whoever waits."""
        try:
            async for value in self._piped.values():
                await self._take(value)
        except (NotItsProtocol, ProgramEnded, SandboxError) as error:
            self.fail(error)
        except Exception:  # nobody waits for this task: a bug of ours has to end the turn too, and not hang it
            log.exception("codex.pump_failed")
            self.fail(RuntimeError("what the program says is not read any more"))

    def fail(self, error: Exception) -> None:
        """End every wait, now and later, with this error; the first one stays."""
        if not self._failed.done():
            self._failed.set_exception(error)
            self._failed.exception()
        for future in self._asked.values():
            if not future.done():
                future.set_exception(error)
                future.exception()
        self._asked.clear()

    async def request(self, method: str, params: dict[str, object]) -> dict[str, object]:
        """Ask and return the result. Raises Refused, TimeoutError, and what ended the program."""
        if self._failed.done():
            self._failed.result()
        self._count += 1
        number = self._count
        answer: asyncio.Future[dict[str, object]] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            async with asyncio.timeout(self._answer_seconds):
                await self._piped.send({"id": number, "method": method, "params": params})
                return await answer
        finally:
            self._asked.pop(number, None)

    async def notify(self, method: str) -> None:
        """Tell something that needs no answer."""
        await self._piped.send({"method": method})

    async def answer(self, notice: Notice, result: dict[str, object] | None) -> None:
        """Answer a request of the program's; None says that this client does not serve it."""
        said: dict[str, object] = {"error": _NOT_HERE} if result is None else {"result": result}
        await self._piped.send({"id": notice.request_id, **said})

    async def next(self, seconds: float) -> Notice | None:
        """Return what comes next, None when nothing came in that time. Raises what ended the program."""
        coming = asyncio.ensure_future(self._notices.get())
        try:
            waits: set[asyncio.Future[Any]] = {coming, self._failed}
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                return coming.result()
            if self._failed.done():
                self._failed.result()
            return None
        finally:
            coming.cancel()

    async def _take(self, value: dict[str, object]) -> None:
        method, number = value.get("method"), value.get("id")
        if isinstance(method, str):
            params = value.get("params")
            notice = Notice(method[:_MAX_NAME], params if isinstance(params, dict) else {}, _request_id(number))
            await self._notices.put(notice)
            return
        asked = self._asked.pop(number, None) if isinstance(number, int) else None
        if asked is None or asked.done():
            return
        error, result = value.get("error"), value.get("result")
        if isinstance(error, dict):
            asked.set_exception(Refused(str(error.get("message"))[:300]))
        else:
            asked.set_result(result if isinstance(result, dict) else {})


def _request_id(number: object) -> str | int | None:
    if isinstance(number, str) and len(number) <= _MAX_NAME:
        return number
    return number if isinstance(number, int) else None
