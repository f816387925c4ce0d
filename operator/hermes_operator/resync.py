"""Lists everything now and then and compares it with what the watches showed: the net under a watch that died silently."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from hermes_operator import metrics
from hermes_operator.lists import Lists

log = structlog.get_logger()

_STALE_LIMIT = 2
"""Resyncs in a row that found what the watch had not shown; then the process asks to be restarted."""


@dataclass
class Resync:
    """Checks the cache against fresh lists."""

    lists: Lists
    grace_seconds: float = 5.0
    """What the watch may be late by."""
    stale_in_a_row: int = 0

    async def check(self) -> None:
        """List again; whatever the watch has not shown after a moment counts as missed and is taken from the list."""
        missed = 0
        for kind in self.lists.kinds:
            for namespace in self.lists.tenants:
                missed += await self.lists.compare(kind, namespace, self.grace_seconds)
        metrics.WATCH_STALE.inc(missed)
        self.stale_in_a_row = self.stale_in_a_row + 1 if missed else 0
        log.info("resync.done", missed=missed)

    def problem(self) -> str | None:
        """Return what is wrong with the watches, or None."""
        if self.stale_in_a_row >= _STALE_LIMIT:
            return "the watches have missed changes twice in a row"
        return None
