"""Tells the store, and the operators that listen, what this agent does. Nothing waits for BUSY and IDLE."""

from __future__ import annotations

import asyncio

import structlog

from hermes_agent.loop.ports import Store
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import REPORT, AgentState, ReportReply, ReportRequest

log = structlog.get_logger()

SETTLING_SECONDS = 0.1
"""A short turn is not worth two writes: BUSY that is followed by IDLE within this time is never sent."""


class Reporter:
    """Sends the newest state; one that was overtaken before it could be sent is skipped."""

    def __init__(self, store: Store, pod: str) -> None:
        self._store = store
        self._pod = pod
        self._next: AgentState | None = None
        self._some = asyncio.Event()

    def say(self, state: AgentState) -> None:
        """Send a state soon."""
        self._next = state
        self._some.set()

    async def report(self, state: AgentState, startup: dict[str, float] | None = None) -> ReportReply:
        """Send a state now and wait until it is known. Raises HermesError."""
        self._next = None
        return await self._store.call(REPORT, ReportRequest(state=state, pod=self._pod, startup_milliseconds=startup or {}))

    async def pump(self) -> None:
        """Send until cancelled. Raises HermesError when the epoch is over."""
        while True:
            await self._some.wait()
            await asyncio.sleep(SETTLING_SECONDS)
            self._some.clear()
            state, self._next = self._next, None
            if state is None:
                continue
            try:
                await self._store.call(REPORT, ReportRequest(state=state, pod=self._pod))
            except HermesError as error:
                if error.code is ErrorCode.FENCED:
                    raise
                log.warning("report.failed", state=state.value, code=error.code.value)
