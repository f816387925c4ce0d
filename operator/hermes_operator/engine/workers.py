"""Workers: take keys from the queue, run the pass of their kind, and see to it that a failure is tried again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import structlog

from hermes_contracts.errors import HermesError
from hermes_operator import metrics
from hermes_operator.engine.queue import WorkQueue
from hermes_operator.state import Key

log = structlog.get_logger()

Pass = Callable[[Key], Awaitable[float | None]]
"""Runs one pass; returns when to look again, on the queue's clock."""
PASS_SECONDS = 120.0
"""A pass that takes longer is cancelled and tried again."""


@dataclass
class Workers:
    """Runs passes, `count` at once."""

    queue: WorkQueue[Key]
    passes: Mapping[str, Pass]
    count: int
    busy_since: dict[Key, float] = field(default_factory=dict)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self.count):
                group.create_task(self._work())

    def problem(self) -> str | None:
        """Return what is wrong with the workers, or None."""
        now = time.monotonic()
        stuck = [key for key, since in self.busy_since.items() if now - since > 2 * PASS_SECONDS]
        return f"{len(stuck)} passes are stuck" if stuck else None

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            metrics.QUEUE_DEPTH.set(len(self.queue))
            started = time.monotonic()
            self.busy_since[key] = started
            failed = True
            try:
                async with asyncio.timeout(PASS_SECONDS):
                    due = await self.passes[key.kind](key)
                failed = False
                if due is not None:
                    self.queue.add_at(key, due)
            except HermesError as error:
                log.warning("pass.failed", kind=key.kind, key=key.name, code=error.code.value, error=error.message[:300])
            except Exception:
                log.exception("pass.broken", kind=key.kind, key=key.name)
            finally:
                del self.busy_since[key]
                self.queue.done(key, failed=failed)
                outcome = "failed" if failed else "done"
                metrics.RECONCILE_SECONDS.labels(key.kind, outcome).observe(time.monotonic() - started)
