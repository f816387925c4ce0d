"""Messages one after the other: verify, open the turn, run it, acknowledge. Ends when it is drained or fenced."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from enum import IntEnum
from typing import Protocol

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg

from hermes_agent.loop.liveness import watch_event_loop
from hermes_agent.loop.outcome import Outcome
from hermes_agent.loop.ports import Store
from hermes_agent.loop.run import TurnRunner
from hermes_agent.stop import StopSignal
from hermes_agent.transport.acks import give_back, kept_alive, settle
from hermes_agent.transport.commands import Commands
from hermes_agent.transport.deltas import BusDeltas
from hermes_agent.transport.envelope import SignatureCheck, open_envelope, stream_sequence
from hermes_agent.transport.inbox import Inbox
from hermes_agent.transport.reports import Reporter
from hermes_contracts.envelopes import HEADER_TRACE, Inbound
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import OPEN_TURN, SETTLED, AgentState, OpenTurnRequest
from hermes_service.tracing import span

log = structlog.get_logger()

RETRY_SECONDS = 5.0
"""Pause before a message comes again whose turn could not be carried on, because the store was away for too long."""

WATCH_SECONDS = 2.0
RENEWAL_SECONDS = 600.0
"""A turn is not disturbed by a renewal for this long; renewed credentials come hours before the old ones end."""
LAST_WORDS_SECONDS = 5.0
"""How long a drained agent tries to say so; after that the operator learns it from the pod's end."""


class ExitCode(IntEnum):
    """What the process ends with."""

    DRAINED = 0
    FAILED = 1
    UNUSABLE_SETTINGS = 2
    FENCED = 3


class Pump(Protocol):
    """Works beside the turns until it is cancelled."""

    async def pump(self) -> None:
        """Work until cancelled. Raises HermesError when the epoch is over."""
        ...


class Keeper(Pump, Protocol):
    """Keeps the session's files: in its pump, and once more before the agent's last word."""

    async def known(self) -> None:
        """Return when it is known whether files were lost."""
        ...

    async def last(self) -> None:
        """Save what changed. Raises HermesError when the epoch is over."""
        ...


class Worker:
    """One session's agent on the bus."""

    def __init__(  # noqa: PLR0913 - the process's parts meet here, named
        self,
        bus: Client,
        store: Store,
        runner: TurnRunner,
        inbox: Inbox,
        commands: Commands,
        reporter: Reporter,
        deltas: BusDeltas,
        side_jobs: Sequence[Pump] = (),
        keeper: Keeper | None = None,
    ) -> None:
        self._bus = bus
        self._store = store
        self._runner = runner
        self._inbox = inbox
        self._commands = commands
        self._reporter = reporter
        self._deltas = deltas
        self._side_jobs = side_jobs
        self._keeper = keeper
        self._draining = asyncio.Event()
        self._turn: asyncio.Task[bool] | None = None
        self._cut = False
        self._renew_by: float | None = None

    def drain(self, deadline_seconds: float) -> None:
        """Take no more messages; a running turn gets this long to end, then it is given back."""
        if not self._draining.is_set():
            self._draining.set()
            asyncio.get_running_loop().call_later(max(0.0, deadline_seconds), self._cut_turn)

    def reconnected(self) -> None:
        """Ask again for what a restarted server has forgotten."""
        self._inbox.pull_again()
        self._commands.look()

    async def run(self, verifier: SignatureCheck, sid: str, startup: dict[str, float]) -> ExitCode:
        """Work until drained or fenced; then report it, unless fenced."""
        code = ExitCode.DRAINED
        try:
            async with asyncio.TaskGroup() as group:
                jobs: list[Pump] = [self._deltas, self._reporter, self._commands, *self._side_jobs]
                jobs += [self._keeper] if self._keeper is not None else []
                pumps = [group.create_task(job.pump()) for job in jobs]
                pumps += [group.create_task(self._watch()), group.create_task(watch_event_loop())]
                await self._begin(startup)
                if self._keeper is not None:
                    await self._keeper.known()
                await self._serve(verifier, sid)
                for pump in pumps:
                    pump.cancel()
            await self._end()
        except* HermesError as errors:
            if not any(isinstance(e, HermesError) and e.code is ErrorCode.FENCED for e in _leaves(errors)):
                raise
            log.warning("agent.fenced")
            code = ExitCode.FENCED
        return code

    def renew(self) -> None:
        """Connect anew with the new credential when no turn runs, at the latest after RENEWAL_SECONDS."""
        self._renew_by = asyncio.get_running_loop().time() + RENEWAL_SECONDS

    async def _watch(self) -> None:
        """Renew the connection; end the process when it was given up, so that a new one starts with the newest credential.

        The client library gives a connection up for good when its JWT expires, so it is renewed before.
        """
        while not self._bus.is_closed:
            await asyncio.sleep(WATCH_SECONDS)
            late = self._renew_by is not None and asyncio.get_running_loop().time() > self._renew_by
            if self._renew_by is not None and (late or self._turn is None):
                self._renew_by = None
                await self._bus.force_reconnect()
        raise HermesError(ErrorCode.UNAVAILABLE, "the connection to the bus was closed for good")

    async def _begin(self, startup: dict[str, float]) -> None:
        await self._inbox.start()
        reply = await self._reporter.report(AgentState.READY, startup)
        for ack_subject in reply.interrupted_acks:
            await give_back(self._bus, ack_subject)
        log.info("agent.ready", interrupted=len(reply.interrupted_acks), **startup)

    async def _serve(self, verifier: SignatureCheck, sid: str) -> None:
        while (message := await self._next()) is not None:
            inbound = open_envelope(message, verifier, sid)
            if inbound is None:
                await settle(self._bus, message.reply, b"+TERM")
                continue
            await self._handle(message, inbound)

    async def _next(self) -> Msg | None:
        """Return the next message, or None when there shall be none."""
        if self._draining.is_set():
            return None
        async with asyncio.TaskGroup() as group:
            arrival = group.create_task(self._inbox.next())
            drained = group.create_task(self._draining.wait())
            await asyncio.wait({arrival, drained}, return_when=asyncio.FIRST_COMPLETED)
            message = arrival.result() if arrival.done() else None
            arrival.cancel()
            drained.cancel()
        if message is not None and self._draining.is_set():
            await give_back(self._bus, message.reply)
            return None
        return message

    async def _handle(self, message: Msg, inbound: Inbound) -> None:
        trace = (message.headers or {}).get(HEADER_TRACE, "")
        async with kept_alive(self._bus, message.reply):
            with span("agent.turn", trace):
                self._turn = asyncio.ensure_future(self._run_turn(message, inbound))
                finished = await self._outcome_of(self._turn)
        if finished:
            await settle(self._bus, message.reply)
        else:
            await give_back(self._bus, message.reply, delay_seconds=0 if self._cut else RETRY_SECONDS)
        if not self._draining.is_set():
            self._reporter.say(AgentState.IDLE)

    async def _outcome_of(self, turn: asyncio.Task[bool]) -> bool:
        """Return True when the message is done with, False when it has to come again."""
        try:
            return await turn
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if not self._cut or (current and current.cancelling()):
                raise
            log.info("turn.given_back", reason="drained")
        except HermesError as error:
            if error.code is ErrorCode.FENCED:
                raise
            log.error("turn.given_back", reason=error.code.value, message=error.message[:300])
        finally:
            self._turn = None
        await self._commands.turn_ended(None)
        return False

    async def _run_turn(self, message: Msg, inbound: Inbound) -> bool:
        opened = await self._store.call(
            OPEN_TURN,
            OpenTurnRequest(
                inbound=inbound,
                first=self._runner.opening(inbound),
                ack_subject=message.reply,
                stream_sequence=stream_sequence(message.reply),
            ),
        )
        if opened.state in SETTLED:
            log.info("turn.settled_before", turn_id=opened.turn_id, state=opened.state.value)
            return True
        stop = StopSignal()
        self._reporter.say(AgentState.BUSY)
        self._deltas.begin(opened.turn_id, opened.attempt)
        self._commands.turn_begins(stop, inbound.received_at, inbound.sender)
        with structlog.contextvars.bound_contextvars(turn_id=opened.turn_id):
            started = asyncio.get_running_loop().time()
            outcome = await self._runner.run(inbound, opened, stop)
            self._log_end(outcome, opened.attempt, asyncio.get_running_loop().time() - started)
        with contextlib.suppress(HermesError):
            await self._commands.turn_ended(outcome)
        return True

    def _log_end(self, outcome: Outcome, attempt: int, seconds: float) -> None:
        log.info(
            "turn.ended",
            outcome=outcome.outcome,
            reason=outcome.reason.value,
            attempt=attempt,
            seconds=round(seconds, 4),
        )

    def _cut_turn(self) -> None:
        self._cut = True
        if self._turn is not None:
            self._turn.cancel()

    async def _end(self) -> None:
        try:
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                for message in self._inbox.take_waiting():
                    await give_back(self._bus, message.reply)
            if self._keeper is not None:
                await self._keeper.last()
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._reporter.report(AgentState.DRAINED)
        except TimeoutError:
            log.warning("agent.drained_unheard")
        else:
            log.info("agent.drained")


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found.extend(_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    return found
