"""One line of text to a schedule. Six forms are tried in this order, and the first that fits is taken:

1. day and time in words: `every monday 9am`, `weekdays at 9am and 5:30pm`, `daily at 7am`
2. `every <duration>`: `every 30m`, `every 2 hours`, `every day`
3. a cron expression of five fields, names allowed, or `@hourly` and the like
4. an ISO 8601 time: once
5. `in <duration>`: once, counted from the job's creation
6. a bare duration, `30m`: as `every 30m`
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from cronsim import CronSim, CronSimError

from hermes_schedule.errors import ScheduleError
from hermes_schedule.phrases import day_and_time

MAX_LENGTH = 200
MAX_SECONDS = 366 * 86_400
_DURATION = re.compile(
    r"(?:(?P<count>\d{1,6})\s*)?(?P<unit>m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?)(?![a-z])", re.IGNORECASE | re.ASCII
)
_UNIT_SECONDS = {"m": 60, "h": 3600, "d": 86_400}
_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_SHORTEST_PERIOD_PROBE = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Schedule:
    """What a line of text means.

    `cron`: `expressions` hold, each of five fields. `interval`: every `seconds` from the job's creation. `delay`: once,
    `seconds` after the job's creation. `once`: at `at`, which is naive when the text named no offset: then it is in the
    job's time zone.
    """

    kind: Literal["cron", "interval", "delay", "once"]
    text: str
    expressions: tuple[str, ...] = ()
    seconds: int = 0
    at: datetime | None = None

    @property
    def is_recurring(self) -> bool:
        """Tell whether there is more than one run."""
        return self.kind in {"cron", "interval"}


def parse(text: str) -> Schedule:
    """Read a schedule. Raises ScheduleError, whose text says what was wrong and shows what would be right."""
    plain = " ".join(text.split())
    if not plain:
        raise ScheduleError("a schedule is empty")
    if len(plain) > MAX_LENGTH:
        raise ScheduleError(f"a schedule has more than {MAX_LENGTH} characters")
    for form in _FORMS:
        found = form(plain)
        if found is not None:
            return found
    raise ScheduleError(
        f"{plain!r} is not a schedule: write for example 'every 30m', 'weekdays at 9am', '0 9 * * 1-5', "
        "'2027-01-31T09:00' or 'in 2h'"
    )


def _words(text: str) -> Schedule | None:
    expressions = day_and_time(text)
    return None if expressions is None else Schedule("cron", text, expressions=expressions)


def _every(text: str) -> Schedule | None:
    head, _, rest = text.partition(" ")
    if head.lower() != "every" or (seconds := _duration(rest, bare_unit=True)) is None:
        return None
    return Schedule("interval", text, seconds=seconds)


def _cron(text: str) -> Schedule | None:
    expression = _MACROS.get(text.lower(), text)
    fields = expression.split()
    if len(fields) not in {5, 6} or not all(re.fullmatch(r"[\w*/,#?-]+", field, re.ASCII) for field in fields):
        return None
    if len(fields) == 6:
        raise ScheduleError(f"{text!r} has six fields: the smallest step is a minute, so leave the seconds out")
    try:
        next(CronSim(expression, _SHORTEST_PERIOD_PROBE))
    except CronSimError as error:
        raise ScheduleError(f"{text!r}: {str(error)[:1].lower()}{str(error)[1:]} in this cron expression") from None
    except StopIteration:
        raise ScheduleError(f"{text!r} names a day that never comes") from None
    return Schedule("cron", text, expressions=(expression,))


def _iso(text: str) -> Schedule | None:
    if not re.match(r"\d{4}-\d{2}-\d{2}", text):
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ScheduleError(f"{text!r} is not a time: write it as 2027-01-31T09:00 or 2027-01-31T09:00+01:00") from None
    return Schedule("once", text, at=at.replace(second=0, microsecond=0))


def _in(text: str) -> Schedule | None:
    head, _, rest = text.partition(" ")
    if head.lower() != "in" or (seconds := _duration(rest, bare_unit=False)) is None:
        return None
    return Schedule("delay", text, seconds=seconds)


def _bare(text: str) -> Schedule | None:
    seconds = _duration(text, bare_unit=False)
    return None if seconds is None else Schedule("interval", text, seconds=seconds)


_FORMS: tuple[Callable[[str], Schedule | None], ...] = (_words, _every, _cron, _iso, _in, _bare)


def _duration(text: str, *, bare_unit: bool) -> int | None:
    """Return seconds of `30m`, `2 hours` or `1h30m`; a unit alone counts as one where that is allowed."""
    text = text.strip()
    if not text:
        return None
    seconds, end = 0, 0
    for match in _DURATION.finditer(text):
        if text[end : match.start()].strip() or (match["count"] is None and not (bare_unit and match.end() == len(text))):
            return None
        seconds += int(match["count"] or 1) * _UNIT_SECONDS[match["unit"][0].lower()]
        end = match.end()
    if end != len(text):
        return None
    if not 60 <= seconds <= MAX_SECONDS:
        raise ScheduleError(f"{text!r}: a duration must be between one minute and 366 days")
    return seconds
