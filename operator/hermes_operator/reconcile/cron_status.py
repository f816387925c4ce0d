"""The status of a HermesCronJob. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts.crd.cron_job import CronJobSpec, CronJobStatus, CronRunStatus, QueuedRun
from hermes_contracts.names import cron_session_name
from hermes_operator.reconcile.conditions import Finding, rfc3339, settle
from hermes_operator.reconcile.cron_checks import MAX_SKEW_SECONDS, Problem
from hermes_operator.reconcile.cron_model import ObservedCron, Outcome, Slot
from hermes_operator.reconcile.model import Unknown


@dataclass
class Told:
    """What was decided, as far as the status says it. Times in seconds since the epoch, 0 for none."""

    problem: Problem | None
    clock_ok: bool
    counted_from: float
    last_scheduled: float
    started: int
    skipped: int
    queued: tuple[Slot, ...]
    run_now: str
    newest: Slot | None
    """The newest run that is started now."""
    next_run: float | None = None


def schedule_text(spec: CronJobSpec) -> str:
    """Return schedules and time zone as one text that differs when they do."""
    return f"{'; '.join(spec.schedules)} ({spec.time_zone})"


def build_cron_status(observed: ObservedCron, told: Told, now: float) -> CronJobStatus:
    """Return the status that says what was found and decided."""
    view, old = observed.view, observed.view.status
    runs = () if isinstance(observed.runs, Unknown) else observed.runs
    totals = observed.totals
    known = {run.run for run in runs}
    new = 1 if told.newest is not None and told.newest.run not in known else 0
    return CronJobStatus(
        observed_generation=view.generation,
        conditions=settle(_findings(observed, told), old.conditions, view.generation, now),
        schedule=schedule_text(view.spec),
        counted_from=rfc3339(told.counted_from),
        next_run=rfc3339(told.next_run) if told.next_run is not None else None,
        last_scheduled=rfc3339(told.last_scheduled) if told.last_scheduled else None,
        last_run=_last_run(observed, told),
        queued=tuple(QueuedRun(run=slot.run, time=rfc3339(slot.at)) for slot in told.queued),
        active=sum(1 for run in runs if run.active) + new,
        started=told.started,
        skipped=told.skipped,
        succeeded=totals.succeeded if totals is not None else old.succeeded,
        failed=totals.failed if totals is not None else old.failed,
        run_now=told.run_now,
    )


def _findings(observed: ObservedCron, told: Told) -> list[Finding]:
    skew = observed.clock_skew
    if told.clock_ok:
        clock = Finding("Clock", True, "InTime")
    else:
        side = "ahead of" if (skew or 0) > 0 else "behind"
        text = (
            f"the operator's clock is more than {MAX_SKEW_SECONDS:g} s {side} the API server's: nothing starts by the clock "
            "until it is set"
        )
        clock = Finding("Clock", False, "ClockSkew", text)
    problem = told.problem
    if problem is not None:
        ready = Finding("Ready", None if problem.unknown else False, problem.reason, problem.message)
    elif observed.view.spec.suspend:
        ready = Finding("Ready", True, "Suspended", "nothing starts by the clock until spec.suspend is false")
    elif told.next_run is None:
        ready = Finding(
            "Ready", True, "Finished", "its schedules name no time any more, or it ran as often as spec.repeat says"
        )
    else:
        ready = Finding("Ready", True, "Scheduled")
    return [ready, clock]


def _last_run(observed: ObservedCron, told: Told) -> CronRunStatus | None:
    view, old = observed.view, observed.view.status.last_run
    runs = {run.run: run for run in (() if isinstance(observed.runs, Unknown) else observed.runs)}
    newest = told.newest
    if newest is not None:
        ref = view.spec.session_ref
        session = ref.name if ref is not None else cron_session_name(view.name, view.uid, newest.run)
        old = CronRunStatus(run=newest.run, time=rfc3339(newest.at), session=session, outcome=Outcome.WAITING.value)
    if old is None:
        return None
    run = runs.get(old.run)
    if run is None:
        gone = newest is None and old.outcome in (Outcome.WAITING, Outcome.RUNNING) and bool(old.session)
        return old.model_copy(update={"outcome": Outcome.LOST.value}) if gone else old
    return old.model_copy(
        update={"outcome": run.outcome.value, "reason": run.reason, "delivery": run.delivery, "session": run.session}
    )


def unsettled(status: CronJobStatus) -> bool:
    """Tell whether the newest run may still change."""
    last = status.last_run
    return last is not None and (last.outcome in (Outcome.WAITING, Outcome.RUNNING) or last.delivery == "Pending")
