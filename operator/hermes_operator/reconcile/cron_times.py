"""Which times of a job's schedules have come, and which of those run. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hermes_contracts.crd.cron_job import CronJobSpec
from hermes_operator.reconcile.cron_model import Slot
from hermes_schedule import Schedule, ScheduleError, latest_and_missed, next_after, parse

ON_TIME_SECONDS = 60.0
"""A run that starts later than this after its minute was missed."""
MAX_MISSED = 100
"""Missed times that are looked at; older ones are known to be there and not counted."""
DEFAULT_MADE_UP = 5


class UnreadableScheduleError(ValueError):
    """The text names the field, what is wrong and what would be right."""


@dataclass(frozen=True)
class Timetable:
    """A job's schedules in their time zone."""

    schedules: tuple[Schedule, ...]
    zone: ZoneInfo
    created: datetime

    @classmethod
    def of(cls, spec: CronJobSpec, created_at: float) -> Timetable:
        """Read a spec. Raises UnreadableScheduleError."""
        try:
            zone = ZoneInfo(spec.time_zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            hint = "write an IANA name such as Europe/Berlin or UTC"
            raise UnreadableScheduleError(f"spec.timeZone: there is no time zone {spec.time_zone!r}; {hint}") from None
        schedules = []
        for number, text in enumerate(spec.schedules):
            try:
                schedules.append(_parse(text))
            except ScheduleError as error:
                raise UnreadableScheduleError(f"spec.schedules[{number}]: {error}") from None
        return cls(tuple(schedules), zone, _utc(created_at))

    def next_after(self, seconds: float) -> float | None:
        """Return the first time after another, both in seconds since the epoch."""
        found = next_after(self.schedules, _utc(seconds), self.zone, self.created)
        return found.timestamp() if found is not None else None

    def between(self, after: float, until: float) -> tuple[list[Slot], bool]:
        """Return the newest times in `(after, until]`, oldest first, and whether there are older ones."""
        if until <= after:
            return [], False
        found = latest_and_missed(self.schedules, _utc(after), _utc(until), self.zone, self.created, limit=MAX_MISSED)
        return [Slot.at_time(time) for time in found.runs], found.more


@lru_cache(maxsize=1024)
def _parse(text: str) -> Schedule:
    return parse(text)


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def choose(due: list[Slot], spec: CronJobSpec, now: float) -> list[Slot]:
    """Return which of the times that have come are to run, oldest first; the rest is skipped."""
    if spec.starting_deadline_seconds is not None:
        due = [slot for slot in due if now - slot.at <= spec.starting_deadline_seconds]
    if spec.missed_run_policy == "RunAll":
        limit = spec.max_missed_runs or DEFAULT_MADE_UP
        missed = [slot for slot in due if now - slot.at >= ON_TIME_SECONDS][-limit:]
        return missed + [slot for slot in due if now - slot.at < ON_TIME_SECONDS]
    if spec.missed_run_policy == "Skip":
        due = [slot for slot in due if now - slot.at < ON_TIME_SECONDS]
    return due[-1:]
