"""The times of schedules, in UTC and whole minutes.

Daylight saving follows Debian's cron, by the cronsim package: a job at a fixed time that the clock jumps over runs right
after the jump, one at a time that comes twice runs once; a job with a `*` in minutes or hours follows the clock on the
wall. Intervals and delays count elapsed time and know no daylight saving.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim

from hermes_schedule.grammar import Schedule

_HORIZON = timedelta(days=366 * 50)


@dataclass(frozen=True)
class Missed:
    """Times that have come since the last look: the newest `runs`, oldest first, and whether there were older ones."""

    runs: tuple[datetime, ...]
    more: bool


def next_after(schedules: Sequence[Schedule], after: datetime, zone: ZoneInfo, created: datetime) -> datetime | None:
    """Return the first time strictly after `after`, or None when there will be none. All times are aware."""
    times = [time for schedule in schedules if (time := _next(schedule, after, zone, created)) is not None]
    return min(times, default=None)


def latest_and_missed(
    schedules: Sequence[Schedule], after: datetime, until: datetime, zone: ZoneInfo, created: datetime, *, limit: int
) -> Missed:
    """Return the times in `(after, until]`, at most `limit` of them: the newest ones.

    Costs what `limit` costs, however long nobody looked: it walks backwards.
    """
    found: set[datetime] = set()
    more = False
    for times in (times for schedule in schedules for times in _backwards(schedule, until, zone, created)):
        for count, time in enumerate(times):
            if time <= after:
                break
            if count >= limit:
                more = True
                break
            found.add(time)
    ordered = sorted(found)
    return Missed(tuple(ordered[-limit:]), more or len(ordered) > limit)


def _next(schedule: Schedule, after: datetime, zone: ZoneInfo, created: datetime) -> datetime | None:
    if schedule.kind == "cron":
        times = [
            time.astimezone(UTC)
            for expression in schedule.expressions
            if (time := _first(CronSim(expression, after.astimezone(zone)), after)) is not None
        ]
        return min(times, default=None)
    if schedule.kind == "interval":
        first = _minute(created)
        elapsed = (after - first).total_seconds()
        return first + timedelta(seconds=schedule.seconds * max(1, int(elapsed // schedule.seconds) + 1))
    at = _once(schedule, zone, created)
    return at if at > after else None


def _first(times: Iterator[datetime], after: datetime) -> datetime | None:
    """Return the first time after `after`. Around a fold a library may offer one that is not."""
    for time in times:
        if time.astimezone(UTC) > after:
            return time if time.astimezone(UTC) - after < _HORIZON else None
    return None


def _backwards(schedule: Schedule, until: datetime, zone: ZoneInfo, created: datetime) -> list[Iterator[datetime]]:
    """Return the times at or before `until`, newest first, one iterator an expression."""
    if schedule.kind == "cron":
        return [_cron_backwards(expression, until, zone) for expression in schedule.expressions]
    if schedule.kind == "interval":
        first, step = _minute(created), timedelta(seconds=schedule.seconds)
        return [(first + step * number for number in range((until - first) // step, 0, -1))]
    at = _once(schedule, zone, created)
    return [iter([at] if at <= until else [])]


def _cron_backwards(expression: str, until: datetime, zone: ZoneInfo) -> Iterator[datetime]:
    # One minute on, as the library's times are strictly before where it starts.
    for time in CronSim(expression, (until + timedelta(minutes=1)).astimezone(zone), reverse=True):
        if (when := time.astimezone(UTC)) <= until:
            yield when


def _once(schedule: Schedule, zone: ZoneInfo, created: datetime) -> datetime:
    if schedule.at is None:
        return _minute(created) + timedelta(seconds=schedule.seconds)
    at = schedule.at if schedule.at.tzinfo else schedule.at.replace(tzinfo=zone)
    return at.astimezone(UTC)


def _minute(time: datetime) -> datetime:
    return time.astimezone(UTC).replace(second=0, microsecond=0)
