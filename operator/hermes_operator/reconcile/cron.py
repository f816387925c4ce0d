"""What to do about a HermesCronJob: `decide_cron` is a function of what was observed and of the time, and of nothing else.

A time that has come is dealt with once: it starts, waits in the queue, or is skipped, and `lastScheduled` moves on in the
same write. A run is named by its time, so a start that is repeated, by whomever, is the same run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hermes_contracts.crd.cron_job import MAX_QUEUED, CronJobSpec
from hermes_operator.build.meta import template_hash
from hermes_operator.cluster.views import CronJobView, timestamp
from hermes_operator.reconcile.cron_checks import MAX_SKEW_SECONDS, Problem, find_problem
from hermes_operator.reconcile.cron_model import (
    GOOD,
    MANUAL,
    CronAction,
    CronNote,
    CronPlan,
    DropRun,
    ObservedCron,
    Run,
    Slot,
    StartRun,
    StopRun,
)
from hermes_operator.reconcile.cron_status import Told, build_cron_status, schedule_text
from hermes_operator.reconcile.cron_times import Timetable, UnreadableScheduleError, choose
from hermes_operator.reconcile.model import Unknown

LOOK_AGAIN_SECONDS = 5.0
RECHECK_SECONDS = 10.0
LONGEST_WAIT_SECONDS = 30.0
"""The wall clock may be set while we wait, so no wait is longer."""
REPLACE_SECONDS = 60.0
"""What a run that is being replaced gets to end; then the new one starts beside it."""


@dataclass
class _Turn:
    """What comes of the runs that want to start."""

    starts: list[Slot] = field(default_factory=list)
    stops: list[Run] = field(default_factory=list)
    queued: list[Slot] = field(default_factory=list)
    skipped: list[Slot] = field(default_factory=list)


def decide_cron(observed: ObservedCron, now: float) -> CronPlan:
    """Return what to do about a job."""
    view, status = observed.view, observed.view.status
    if view.deleting:
        return CronPlan()  # its runs go with it, by their owner references
    if isinstance(observed.runs, Unknown):
        return CronPlan(due=now + LOOK_AGAIN_SECONDS)
    try:
        table: Timetable | None = Timetable.of(view.spec, view.created_at)
        problem = find_problem(observed)
    except UnreadableScheduleError as error:
        table, problem = None, Problem("ScheduleUnreadable", str(error))
    clock_ok = observed.clock_skew is None or abs(observed.clock_skew) <= MAX_SKEW_SECONDS
    counted_from = _counted_from(view, now)
    after = max(counted_from, timestamp(status.last_scheduled))
    due: list[Slot] = []
    more = False
    if table is not None and problem is None and clock_ok and not view.spec.suspend:
        due, more = table.between(after, now)
        due = _within_repeat(view, due)
    chosen = choose(due, view.spec, now)
    asked = _asked_for(view, now) if problem is None else []
    turn = _Turn()
    if problem is None:
        turn = _take_turns(observed.runs, _waiting(view), [*chosen, *asked], view.spec, now)
    dropped = [slot for slot in due if slot not in chosen] + turn.skipped
    started = sum(1 for slot in turn.starts if not slot.is_manual)
    told = Told(
        problem=problem,
        clock_ok=clock_ok,
        counted_from=counted_from,
        last_scheduled=due[-1].at if due else timestamp(status.last_scheduled),
        started=status.started + started,
        skipped=status.skipped + len(dropped),
        queued=tuple(turn.queued) if problem is None else _waiting(view),
        run_now=view.run_now if problem is None else status.run_now,
        newest=turn.starts[-1] if turn.starts else None,
    )
    told.next_run = _next_run(table, view, told, max(after, now))
    actions: list[CronAction] = [StartRun(slot) for slot in turn.starts]
    actions += [StopRun(run) for run in turn.stops]
    actions += [DropRun(run) for run in _outdated(observed.runs, view.spec)]
    return CronPlan(
        actions=tuple(actions),
        status=build_cron_status(observed, told, now),
        due=_due(observed.runs, told, now),
        notes=tuple(_notes(dropped, more)),
    )


def _counted_from(view: CronJobView, now: float) -> float:
    """Return since when times count: a schedule that was changed names none of the past."""
    if not view.status.schedule:
        return view.created_at
    if view.status.schedule != schedule_text(view.spec):
        return now
    return timestamp(view.status.counted_from)


def _within_repeat(view: CronJobView, due: list[Slot]) -> list[Slot]:
    if view.spec.repeat is None:
        return due
    left = (
        view.spec.repeat - view.status.started - sum(1 for entry in view.status.queued if not entry.run.startswith(MANUAL))
    )
    return due[:left] if left > 0 else []


def _asked_for(view: CronJobView, now: float) -> list[Slot]:
    """Return the run that the annotation asks for, once a value."""
    if not view.run_now or view.run_now == view.status.run_now:
        return []
    return [Slot(MANUAL + template_hash(view.uid, view.run_now), now)]


def _waiting(view: CronJobView) -> tuple[Slot, ...]:
    return tuple(Slot(entry.run, timestamp(entry.time)) for entry in view.status.queued)


def _take_turns(runs: tuple[Run, ...], waiting: tuple[Slot, ...], new: list[Slot], spec: CronJobSpec, now: float) -> _Turn:
    """Let runs start, wait or be skipped, as the policy says."""
    known = {run.run: run for run in runs}
    turn = _Turn()
    candidates = [*waiting, *new]
    # What has an object was started by a pass whose status was never written: it is said again, which does no harm.
    turn.starts = [slot for slot in candidates if slot.run in known]
    rest = [slot for slot in candidates if slot.run not in known]
    active = [run for run in runs if run.active]
    if not rest:
        return turn
    match spec.concurrency_policy:
        case "Allow":
            turn.starts += rest
        case "Forbid":
            if active:
                turn.skipped = rest
            else:
                turn.starts.append(rest[-1])
                turn.skipped = rest[:-1]
        case "Queue":
            if not active:
                turn.starts.append(rest.pop(0))
            turn.queued, turn.skipped = rest[-MAX_QUEUED:], rest[:-MAX_QUEUED]
        case "Replace":
            newest, turn.skipped = rest[-1], rest[:-1]
            if active and now - newest.at < REPLACE_SECONDS:
                turn.queued, turn.stops = [newest], active
            else:
                turn.starts.append(newest)
    return turn


def _outdated(runs: tuple[Run, ...], spec: CronJobSpec) -> list[Run]:
    """Return the runs that are beyond the history limits; answers that are still being delivered stay."""
    if spec.session_ref is not None:
        return []
    ended = (run for run in runs if not run.active and run.delivery != "Pending")
    over = sorted(ended, key=lambda run: (run.at, run.opened_at, run.run))
    good = [run for run in over if run.outcome in GOOD]
    bad = [run for run in over if run.outcome not in GOOD]
    return [
        *good[: max(0, len(good) - spec.successful_runs_history_limit)],
        *bad[: max(0, len(bad) - spec.failed_runs_history_limit)],
    ]


def _next_run(table: Timetable | None, view: CronJobView, told: Told, after: float) -> float | None:
    if table is None or view.spec.suspend:
        return None
    if view.spec.repeat is not None and told.started + len(told.queued) >= view.spec.repeat:
        return None
    return table.next_after(after)


def _due(runs: tuple[Run, ...], told: Told, now: float) -> float:
    if told.problem is not None or not told.clock_ok:
        return now + RECHECK_SECONDS
    if told.queued or told.newest or any(run.active or run.delivery == "Pending" for run in runs):
        wait = LOOK_AGAIN_SECONDS
    else:
        wait = LONGEST_WAIT_SECONDS
    return min(now + wait, told.next_run if told.next_run is not None else now + wait)


def _notes(dropped: list[Slot], more: bool) -> list[CronNote]:
    notes = []
    if dropped:
        names = ", ".join(slot.run for slot in dropped[-3:])
        text = f"{len(dropped)} skipped by concurrencyPolicy, missedRunPolicy or startingDeadlineSeconds; newest: {names}"
        notes.append(CronNote(True, "RunsSkipped", text, len(dropped)))
    if more:
        notes.append(CronNote(True, "TooManyMissed", "more than 100 runs were missed; older ones were not looked at"))
    return notes
