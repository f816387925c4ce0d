"""What is known of a job's runs: their objects, and what the store says of their turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hermes_contracts.errors import HermesError
from hermes_contracts.store_api import CRON_TURNS, SETTLED, CronTurn, CronTurns, CronTurnsRequest, TurnState
from hermes_operator.cluster.views import CronJobView, SessionView, timestamp
from hermes_operator.namespaces import Namespaces
from hermes_operator.reconcile.cron_model import Outcome, Run, Totals
from hermes_operator.reconcile.cron_status import unsettled
from hermes_operator.reconcile.model import Unknown
from hermes_operator.reconcile.status import State
from hermes_operator.state import Shared
from hermes_service.rpc import StoreClient

LOST_SECONDS = 300.0
"""A run whose session has failed to start for this long holds up nobody any more."""
SILENT_REASONS = frozenset({"silent", "not_woken"})


@dataclass
class _Known:
    """What the store has said of a job; turns that are over, delivery included, do not change any more."""

    turns: dict[str, CronTurn] = field(default_factory=dict)
    totals: Totals | None = None


@dataclass
class Runs:
    """Looks runs up. Asks the store only while something may have changed."""

    store: StoreClient
    shared: Shared
    namespaces: Namespaces
    wall_clock: Callable[[], float] = time.time
    _known: dict[str, _Known] = field(default_factory=dict)

    def keep(self, job_uids: set[str]) -> None:
        """Forget all other jobs."""
        self._known = {uid: known for uid, known in self._known.items() if uid in job_uids}

    async def look(self, view: CronJobView, session: SessionView | Unknown | None) -> tuple[tuple[Run, ...], Totals | None]:
        """Return a job's runs and how many have ended. Raises HermesError when the store does not answer."""
        if view.spec.session_ref is not None:
            places = await self._in_one_session(view, session)
        else:
            uid = (await self.namespaces.get(view.namespace)).uid
            records = self.shared.cache.runs_of(view)
            places = [_place(record.view(), uid) for record in records if not record.deleting]
        known = self._known.setdefault(view.uid, _Known())
        open_runs = [place.run for place in places if not _final(known.turns.get(place.run))]
        if open_runs or unsettled(view.status):
            await self._ask(view.uid, known, open_runs)
        wanted = {place.run for place in places}
        known.turns = {run: turn for run, turn in known.turns.items() if run in wanted}
        now = self.wall_clock()
        return tuple(_run(place, known.turns.get(place.run), now) for place in places), known.totals

    async def _ask(self, job_uid: str, known: _Known, runs: list[str]) -> None:
        request = CronTurnsRequest(job_uid=job_uid, runs=tuple(runs[-250:]))
        found = await self.store.call(CRON_TURNS, request, patience_seconds=2.0)
        known.turns.update({turn.run: turn for turn in found.turns})
        known.totals = Totals(found.succeeded, found.failed)

    async def answer_of(self, job_uid: str) -> str:
        """Return what a job said last. Raises HermesError."""
        found: CronTurns = await self.store.call(CRON_TURNS, CronTurnsRequest(job_uid=job_uid), patience_seconds=2.0)
        return found.answer

    async def _in_one_session(self, view: CronJobView, session: SessionView | Unknown | None) -> list[_Place]:
        """Turns of one session run one after the other, so the newest run's end is the end of all of them."""
        last = view.status.last_run
        if last is None or not isinstance(session, SessionView):
            return []
        uid = (await self.namespaces.get(view.namespace)).uid
        at = timestamp(last.time)
        return [_Place(last.run, at, session.name, session.uid, session.sid(uid), session.status.state)]


@dataclass(frozen=True)
class _Place:
    run: str
    at: float
    session: str
    session_uid: str
    sid: str
    state: str


def _place(session: SessionView, namespace_uid: str) -> _Place:
    run = session.key().chat
    return _Place(run, session.created_at, session.name, session.uid, session.sid(namespace_uid), session.status.state)


def _final(turn: CronTurn | None) -> bool:
    return turn is not None and turn.state in SETTLED and turn.delivered + turn.undeliverable >= turn.parts


def _run(place: _Place, turn: CronTurn | None, now: float) -> Run:
    run = Run(place.run, place.at, place.session, place.session_uid, place.sid, _outcome(place, turn, now))
    if turn is None:
        return run
    return replace(run, reason=turn.reason, delivery=_delivery(turn), opened_at=turn.opened_at)


def _outcome(place: _Place, turn: CronTurn | None, now: float) -> Outcome:
    if turn is not None and turn.state in SETTLED:
        if turn.state in (TurnState.DONE, TurnState.MERGED):
            return Outcome.SILENT if turn.reason in SILENT_REASONS else Outcome.SUCCEEDED
        return Outcome.FAILED
    if place.state == State.FAILED and now - place.at >= LOST_SECONDS:
        return Outcome.LOST
    return Outcome.WAITING if turn is None else Outcome.RUNNING


def _delivery(turn: CronTurn) -> str:
    if not turn.parts:
        return "None"
    if turn.delivered + turn.undeliverable < turn.parts:
        return "Pending"
    if not turn.undeliverable:
        return "Delivered"
    return "Partial" if turn.delivered else "Failed"


async def observe_runs(
    runs: Runs, view: CronJobView, session: SessionView | Unknown | None
) -> tuple[tuple[Run, ...] | Unknown, Totals | None]:
    """Return what `look` returns, or why it could not."""
    try:
        return await runs.look(view, session)
    except HermesError as error:
        return Unknown(error.message), None
