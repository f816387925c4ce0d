"""Large bodies: one key cannot take the memory of all, and what was taken is given back."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from hermes_gateway.gateway.web.errors import ApiError
from hermes_gateway.gateway.web.limits import BodyBudget, Guard


class Call:
    """One request to a guarded application whose handler takes its time."""

    def __init__(self, guard: Guard, body: bytes) -> None:
        self.guard, self.body, self.status = guard, body, 0

    async def run(self, caller: str) -> int:
        scope: Scope = {"type": "http", "headers": [], "path": "/", "method": "POST", "caller": caller}
        await self.guard(scope, self.receive, self.send)
        return self.status

    async def receive(self) -> Message:
        return {"type": "http.request", "body": self.body, "more_body": False}

    async def send(self, message: Message) -> None:
        self.status = message.get("status", self.status)


def gate(scope: Scope) -> None:
    scope.setdefault("state", {})["caller"] = SimpleNamespace(id=scope["caller"])


async def test_a_key_with_too_much_in_flight_waits_and_another_does_not() -> None:
    released = asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await released.wait()
        await PlainTextResponse("ok")(scope, receive, send)

    guard = Guard(slow, listener="api", max_bytes=100, timeout_seconds=1, gate=gate, budget=BodyBudget(100, 150))
    async with asyncio.TaskGroup() as group:
        first = group.create_task(Call(guard, b"x" * 80).run("ann"))
        await asyncio.sleep(0)
        assert await Call(guard, b"x" * 30).run("ann") == 429
        second = group.create_task(Call(guard, b"x" * 70).run("bob"))
        await asyncio.sleep(0)
        assert await Call(guard, b"x" * 10).run("cid") == 503
        released.set()
    assert (first.result(), second.result()) == (200, 200)
    assert await Call(guard, b"x" * 100).run("ann") == 200, "all has been given back"


def test_what_was_refused_is_not_counted() -> None:
    budget = BodyBudget(10, 15)
    budget.charge("a", 10)
    with pytest.raises(ApiError, match="calls of this key"):
        budget.charge("a", 1)
    with pytest.raises(ApiError, match="too many large calls"):
        budget.charge("b", 6)
    budget.charge("b", 5)
    budget.release("a", 10)
    budget.charge("b", 5)
