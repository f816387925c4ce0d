"""Observed jobs in few words. `NOW` is a whole minute."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hermes_contracts.crd.base import ObjectRef
from hermes_contracts.crd.cron_job import CronJobSpec, CronJobStatus
from hermes_operator.cluster.views import CronJobView, timestamp
from hermes_operator.reconcile.conditions import rfc3339
from hermes_operator.reconcile.cron import decide_cron
from hermes_operator.reconcile.cron_model import CronPlan, DropRun, ObservedCron, Outcome, Run, StartRun, StopRun
from hermes_operator.reconcile.cron_status import schedule_text
from tests.unit.operator.builders import READY

NOW = timestamp("2027-01-15T10:00:00Z")
"""A Friday."""
MINUTE = 60.0
HOUR = 3600.0


def job(status: CronJobStatus | None = None, *, run_now: str = "", age: float = 86_400, **spec: Any) -> CronJobView:
    fields = {"schedules": ("every hour",), "prompt": "report", "profile_ref": ObjectRef(name="demo"), **spec}
    return CronJobView(
        namespace="team",
        name="nightly",
        uid="job-uid",
        resource_version="1",
        generation=1,
        created_at=NOW - age,
        deleting=False,
        run_now=run_now,
        spec=CronJobSpec.model_validate(fields),
        status=status or CronJobStatus(),
    )


def at(seconds: float) -> str:
    """Name of the run at a time."""
    return rfc3339(seconds)


def run(when: float, outcome: Outcome = Outcome.RUNNING, **fields: Any) -> Run:
    blank = Run(at(when), when, f"nightly-{when:.0f}", f"uid-{when:.0f}", "s" + "a" * 25, outcome)
    return replace(blank, **fields)


def observed(view: CronJobView, *runs: Run, **fields: Any) -> ObservedCron:
    return replace(ObservedCron(view, READY, runs, clock_skew=0.0, jobs=frozenset({view.name})), **fields)


def caught_up(view: CronJobView, last: float) -> CronJobView:
    """Return the job after everything up to `last` was dealt with."""
    status = view.status.model_copy(
        update={
            "schedule": schedule_text(view.spec),
            "counted_from": rfc3339(view.created_at),
            "last_scheduled": rfc3339(last),
        }
    )
    return replace(view, status=status)


def starts(plan: CronPlan) -> list[str]:
    return [action.slot.run for action in plan.actions if isinstance(action, StartRun)]


def stops(plan: CronPlan) -> list[str]:
    return [action.run.run for action in plan.actions if isinstance(action, StopRun)]


def drops(plan: CronPlan) -> list[str]:
    return [action.run.run for action in plan.actions if isinstance(action, DropRun)]


def told(plan: CronPlan) -> CronJobStatus:
    assert plan.status is not None
    return plan.status


def after(view: CronJobView, plan: CronPlan) -> CronJobView:
    """Return the job with the status that a pass wrote."""
    return replace(view, status=told(plan))


def ready(plan: CronPlan) -> tuple[str, str]:
    return next((c.status, c.reason) for c in told(plan).conditions if c.type == "Ready")


def decide(view: CronJobView, *runs: Run, now: float = NOW, **fields: Any) -> CronPlan:
    """Decide, and check what holds for every decision: started runs are new and none is started twice."""
    plan = decide_cron(observed(view, *runs, **fields), now)
    names = starts(plan)
    assert len(names) == len(set(names))
    if plan.status is not None and view.status.last_scheduled and plan.status.last_scheduled:
        assert timestamp(plan.status.last_scheduled) >= timestamp(view.status.last_scheduled)
    return plan
