"""The nouns of deciding about a HermesCronJob: what was observed, what is planned."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from hermes_contracts.crd.cron_job import CronJobStatus
from hermes_operator.cluster.views import CronJobView, SessionView
from hermes_operator.reconcile.conditions import rfc3339
from hermes_operator.reconcile.model import ProfileVerdict, Unknown

MANUAL = "now-"
"""How the names of runs begin that a person asked for."""


class Outcome(StrEnum):
    """What became of a run."""

    WAITING = "Waiting"
    """No agent has opened its turn."""
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    SILENT = "Silent"
    """It ended well and had nothing to say."""
    FAILED = "Failed"
    LOST = "Lost"
    """Its session cannot start, or is gone before its turn was opened: it holds up nobody."""


OVER = frozenset({Outcome.SUCCEEDED, Outcome.SILENT, Outcome.FAILED, Outcome.LOST})
GOOD = frozenset({Outcome.SUCCEEDED, Outcome.SILENT})


@dataclass(frozen=True)
class Slot:
    """A run to come: its name, and when it was due, in seconds since the epoch."""

    run: str
    at: float

    @classmethod
    def at_time(cls, when: datetime) -> Slot:
        """Return the run of a scheduled minute."""
        seconds = when.astimezone(UTC).timestamp()
        return cls(rfc3339(seconds), seconds)

    @property
    def is_manual(self) -> bool:
        """Tell whether a person asked for it."""
        return self.run.startswith(MANUAL)


@dataclass(frozen=True)
class Run:
    """A run that was started."""

    run: str
    at: float
    """When its object was made, in seconds since the epoch; Kubernetes counts whole seconds."""
    session: str
    session_uid: str
    sid: str
    outcome: Outcome
    reason: str = ""
    delivery: str = "None"
    opened_at: float = 0.0
    """When its turn was opened, in seconds since the epoch; 0: not yet."""

    @property
    def active(self) -> bool:
        """Tell whether it goes on."""
        return self.outcome not in OVER


@dataclass(frozen=True)
class Totals:
    """How many runs ended, ever."""

    succeeded: int
    failed: int


@dataclass(frozen=True)
class ObservedCron:
    """Everything a decision may rest on."""

    view: CronJobView
    profile: ProfileVerdict | Unknown | None
    """None: there is no such Profile."""
    runs: tuple[Run, ...] | Unknown
    """Those whose objects are there; with `sessionRef` those that the status and the store know of."""
    clock_skew: float | None = None
    """Seconds that our clock is ahead of the API server's; None: not measured yet."""
    totals: Totals | None = None
    """None: not asked, what was said before stays."""
    session: SessionView | Unknown | None = None
    """The one that `sessionRef` names, if it names one; None: it is not there."""
    jobs: frozenset[str] = frozenset()
    """Names of the namespace's jobs."""


@dataclass(frozen=True)
class StartRun:
    """Make the run's session and send its message; both may have been done already."""

    slot: Slot


@dataclass(frozen=True)
class StopRun:
    """Have a run's turn end."""

    run: Run


@dataclass(frozen=True)
class DropRun:
    """Delete the session of a run that is over."""

    run: Run


CronAction = StartRun | StopRun | DropRun


@dataclass(frozen=True)
class CronNote:
    """Something that `kubectl describe` should tell."""

    warning: bool
    reason: str
    text: str
    count: int = 1


@dataclass(frozen=True)
class CronPlan:
    """What to do now, what to say, and when to look again."""

    actions: tuple[CronAction, ...] = ()
    status: CronJobStatus | None = None
    """None: say nothing."""
    due: float | None = None
    notes: tuple[CronNote, ...] = field(default=())
