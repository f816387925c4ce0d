"""Publishes outbox rows to JetStream: at once by the process that wrote them, later by any process when that one died.

Order per subject holds with several replicas: only the holder of the session's advisory lock publishes its rows, reading
them in the order of their ids, and it does not go past a row that the bus refused. Marking a row as relayed is not waited
for on disk: after a crash a row may be published again, under the same message id.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.errors import Error as JetStreamError

from hermes_contracts.envelopes import HEADER_MESSAGE_ID
from hermes_contracts.errors import HermesError
from hermes_gateway.store import metrics
from hermes_gateway.store.database import Database, Row, Scope, Transaction

log = structlog.get_logger()

SWEEP_SECONDS = 1.0
ABANDONED_SECONDS = 2.0
"""A row older than this was left by a process that died, or the bus was away."""
_BATCH = 64
_SWEEP_SESSIONS = 200
_WORKERS = 4
_PUBLISH_SECONDS = 3.0
_SHORTEST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
_FORGET_SECONDS = 60.0

_TRY_LOCK = "select pg_try_advisory_xact_lock(hashtextextended(%s, 1)) as mine"
_WAITING = """
select id, subject, payload, (extract(epoch from created_at) * 1000000)::bigint as created from outbox
where sid = %s and relayed_at is null and subject <> all(%s) order by id limit %s
"""
_MARK = "update outbox set relayed_at = now() where id = any(%s)"
_ABANDONED = """
select sid, count(*) as rows, extract(epoch from now() - min(created_at))::float8 as oldest from outbox
where relayed_at is null and created_at < now() - make_interval(secs => %s) and subject <> all(%s)
group by sid order by min(created_at) limit %s
"""


@dataclass(frozen=True)
class _Pause:
    until: float
    seconds: float


class Relay:
    """Workers that each publish one session's rows at a time; `hint` says that a session has some."""

    def __init__(self, bus: Client, database: Database) -> None:
        self._bus = bus
        self._jetstream = bus.jetstream(timeout=_PUBLISH_SECONDS)
        self._database = database
        self._ready: asyncio.Queue[str] = asyncio.Queue()
        self._queued: set[str] = set()
        self._running: set[str] = set()
        self._again: set[str] = set()
        self._pauses: dict[str, _Pause] = {}
        self._soon: dict[str, asyncio.TimerHandle] = {}

    def hint_soon(self, sid: str, seconds: float) -> None:
        """Say that a session has rows that nobody waits for: they go together with what comes within `seconds`."""
        if sid not in self._soon and sid not in self._queued:
            self._soon[sid] = asyncio.get_running_loop().call_later(seconds, self.hint, sid)

    def hint(self, sid: str) -> None:
        """Say that a session has rows. Never blocks; many hints are one."""
        waiting = self._soon.pop(sid, None)
        if waiting is not None:
            waiting.cancel()
        if sid in self._running:
            self._again.add(sid)
        elif sid not in self._queued:
            self._queued.add(sid)
            self._ready.put_nowait(sid)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Relay while the context lasts."""
        tasks = [asyncio.create_task(self._work()) for _ in range(_WORKERS)]
        tasks.append(asyncio.create_task(self._sweep()))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for timer in self._soon.values():
                timer.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            sid = await self._ready.get()
            self._queued.discard(sid)
            self._running.add(sid)
            try:
                await self._relay_session(sid)
            except HermesError as error:
                log.warning("store.relay.failed", sid=sid, error=error.message)
            except Exception:  # the outermost loop: one session's rows must not stop the others'
                log.exception("store.relay.failed", sid=sid)
            finally:
                self._running.discard(sid)
            if sid in self._again:
                self._again.discard(sid)
                self.hint(sid)

    async def _relay_session(self, sid: str) -> None:
        more = True
        while more and self._bus.is_connected:
            more = await self._database.run(
                Scope(sid=sid), lambda transaction: self._relay_batch(transaction, sid), durable=False
            )

    async def _relay_batch(self, transaction: Transaction, sid: str) -> bool:
        locked, rows = await transaction.ask((_TRY_LOCK, (sid,)), (_WAITING, (sid, self._resting(), _BATCH)))
        if not locked[0]["mine"]:
            # Its holder may have read before our rows were there: look again soon instead of waiting for the sweep.
            asyncio.get_running_loop().call_later(0.02, self.hint, sid)
            return False
        sent = await self._publish(rows)
        await transaction.commit(*([(_MARK, (sent,))] if sent else []))
        return len(rows) == _BATCH

    async def _publish(self, rows: list[Row]) -> list[int]:
        """Publish rows, those of one subject one after the other; returns the ids that JetStream has."""
        by_subject: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            by_subject[row["subject"]].append(row)
        if len(by_subject) == 1:
            return await self._publish_in_order(rows)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._publish_in_order(part)) for part in by_subject.values()]
        return [number for task in tasks for number in task.result()]

    async def _publish_in_order(self, rows: list[Row]) -> list[int]:
        sent: list[int] = []
        for row in rows:
            # The time is part of the id: a database restored from a backup hands out numbers a second time.
            headers = {HEADER_MESSAGE_ID: f"outbox/{row['id']}-{row['created']}"}
            try:
                await self._jetstream.publish(row["subject"], row["payload"].encode(), headers=headers)
            except (JetStreamError, NatsError, TimeoutError) as error:
                self._pause(row["subject"], f"{type(error).__name__}: {error}"[:200])
                break
            sent.append(row["id"])
            self._pauses.pop(row["subject"], None)
            metrics.RELAYED.inc()
        return sent

    def _pause(self, subject: str, why: str) -> None:
        """Leave a subject alone for a while: the bus refuses it (its stream is full or not there yet), or is away."""
        last = self._pauses.get(subject)
        seconds = min(last.seconds * 2, _LONGEST_PAUSE_SECONDS) if last else _SHORTEST_PAUSE_SECONDS
        self._pauses[subject] = _Pause(time.monotonic() + seconds, seconds)
        metrics.RELAY_FAILURES.inc()
        log.warning("store.relay.refused", subject=subject, error=why, pause_seconds=seconds)

    def _resting(self) -> list[str]:
        now = time.monotonic()
        forgotten = [subject for subject, pause in self._pauses.items() if pause.until < now - _FORGET_SECONDS]
        for subject in forgotten:
            del self._pauses[subject]
        return [subject for subject, pause in self._pauses.items() if pause.until > now]

    async def _sweep(self) -> None:
        while True:
            if self._bus.is_connected:
                try:
                    await self._sweep_once()
                except HermesError as error:
                    log.warning("store.relay.sweep_failed", error=error.message)
            await asyncio.sleep(SWEEP_SECONDS)

    async def _sweep_once(self) -> None:
        arguments = (ABANDONED_SECONDS, self._resting(), _SWEEP_SESSIONS)
        (found,) = await self._database.run(
            Scope(task="relay"), lambda transaction: transaction.ask((_ABANDONED, arguments))
        )
        metrics.OUTBOX_WAITING.set(sum(row["rows"] for row in found))
        metrics.OUTBOX_OLDEST_SECONDS.set(max((row["oldest"] for row in found), default=0.0))
        metrics.RELAY_PAUSED.set(len(self._pauses))
        for row in found:
            self.hint(row["sid"])
