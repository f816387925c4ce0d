"""The relay never goes past a row that was refused, within a subject."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from nats.errors import TimeoutError as NatsTimeout

from hermes_gateway.store import relay as relay_module
from hermes_gateway.store.database import Row, Scope
from hermes_gateway.store.relay import Relay


class FakeTransaction:
    def __init__(self, database: FakeDatabase) -> None:
        self._database = database

    async def ask(self, *statements: tuple[str, Any]) -> list[list[Row]]:
        if statements[0][0] == relay_module._ABANDONED:
            waiting = [row for row in self._database.rows.values() if row["subject"] not in statements[0][1][1]]
            return [[{"sid": "s", "rows": len(waiting), "oldest": 3.0}] if waiting else []]
        resting = statements[1][1][1]
        return [[{"mine": True}], [row for row in self._database.rows.values() if row["subject"] not in resting]]

    async def commit(self, *statements: tuple[str, Any]) -> list[list[Row]]:
        for _, (ids,) in statements:
            for number in ids:
                del self._database.rows[number]
        return []


class FakeDatabase:
    """Rows that wait, by id."""

    def __init__(self, *subjects: str) -> None:
        self.rows = {n: {"id": n, "subject": subject, "payload": str(n), "created": 1} for n, subject in enumerate(subjects)}

    async def run(self, scope: Scope, work: Callable[[FakeTransaction], Awaitable[Any]], *, durable: bool = True) -> Any:
        return await work(FakeTransaction(self))


class FakeBus:
    """A JetStream that refuses the first publish of some payloads, or all that lie on a subject."""

    is_connected = True

    def __init__(self, *, once: set[str] = frozenset(), always: set[str] = frozenset()) -> None:  # type: ignore[assignment]
        self.once, self.always = set(once), set(always)
        self.taken: list[tuple[str, str]] = []

    def jetstream(self, timeout: float) -> FakeBus:
        return self

    async def publish(self, subject: str, payload: bytes, headers: dict[str, str]) -> None:
        text = payload.decode()
        assert headers == {"Nats-Msg-Id": f"outbox/{text}-1"}
        await asyncio.sleep(0)
        if text in self.once or subject in self.always:
            self.once.discard(text)
            raise NatsTimeout
        self.taken.append((subject, text))


async def relay_until(bus: FakeBus, database: FakeDatabase, count: int) -> None:
    relay = Relay(bus, database)  # type: ignore[arg-type]
    async with relay.running(), asyncio.timeout(10):
        relay.hint("s")
        while len(bus.taken) < count:
            await asyncio.sleep(0.01)


async def test_order_survives_a_refusal_and_other_subjects_go_on() -> None:
    bus, database = FakeBus(once={"1"}), FakeDatabase("events", "events", "events", "out", "events", "out")
    await relay_until(bus, database, 6)
    assert [text for subject, text in bus.taken if subject == "events"] == ["0", "1", "2", "4"]
    assert [text for _, text in bus.taken].index("5") < [text for _, text in bus.taken].index("1")
    assert database.rows == {}


async def test_a_subject_that_is_refused_for_good_holds_up_nothing_else() -> None:
    bus, database = FakeBus(always={"out"}), FakeDatabase("out", "events", "out", "events")
    await relay_until(bus, database, 2)
    assert [text for _, text in bus.taken] == ["1", "3"]
    assert sorted(database.rows) == [0, 2]
