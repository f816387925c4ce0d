"""Days and times in words, compiled to cron expressions."""

from __future__ import annotations

import re

from hermes_schedule.errors import ScheduleError

_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_GROUPS = {
    "daily": "*",
    "day": "*",
    "days": "*",
    "everyday": "*",
    "weekday": "1-5",
    "weekdays": "1-5",
    "weekend": "0,6",
    "weekends": "0,6",
}
_TIME = re.compile(r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>am|pm|a\.m\.|p\.m\.)?", re.IGNORECASE)
_NAMED_TIMES = {"noon": (12, 0), "midday": (12, 0), "midnight": (0, 0)}


def day_and_time(text: str) -> tuple[str, ...] | None:
    """Return cron expressions, one a distinct minute, or None when the text does not begin with a day.

    Raises ScheduleError when it begins with one and then goes wrong.
    """
    words = re.split(r"[\s,]+", text.lower().strip())
    every = words[:1] == ["every"]
    rest = words[1:] if every else words
    taken, days = _read_days(rest)
    if not days:
        return None
    rest = rest[taken:]
    if rest[:1] == ["at"]:
        rest = rest[1:]
    if not rest:
        if every and days == ["*"]:
            return None  # `every day` is a duration
        raise ScheduleError(f"{text!r} does not say when: add a time, as in 'every monday at 9am'")
    return _expressions(_read_times(rest, text), days)


def _read_days(words: list[str]) -> tuple[int, list[str]]:
    days: list[str] = []
    taken = 0
    for position, word in enumerate(words):
        if word == "and" and days:
            continue
        field = _GROUPS.get(word) or _day_number(word)
        if field is None:
            break
        days.append(field)
        taken = position + 1
    return taken, days


def _day_number(word: str) -> str | None:
    name = word.removesuffix("s") if word not in {"tues", "thurs", "wednes"} else word
    for number, day in enumerate(_DAYS):
        if len(name) >= 3 and day.startswith(name):
            return str(number)
    return None


def _read_times(words: list[str], text: str) -> list[tuple[int, int]]:
    joined = re.sub(r"\s+(am|pm|a\.m\.|p\.m\.)\b", r"\1", " ".join(words))
    times = [word for word in joined.split() if word not in {"and", "at"}]
    return [_time(word, text) for word in times]


def _time(word: str, text: str) -> tuple[int, int]:
    if word in _NAMED_TIMES:
        return _NAMED_TIMES[word]
    match = _TIME.fullmatch(word)
    if match is None:
        raise ScheduleError(f"{text!r}: {word!r} is not a time; write 9am, 9:30pm, 14:00, noon or midnight")
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    half = (match["half"] or "").replace(".", "")
    if minute > 59 or hour > (12 if half else 23) or (half and hour == 0):
        raise ScheduleError(f"{text!r}: there is no time {word!r}")
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    return hour, minute


def _expressions(times: list[tuple[int, int]], days: list[str]) -> tuple[str, ...]:
    weekdays = "*" if "*" in days else ",".join(dict.fromkeys(days))
    hours: dict[int, list[int]] = {}
    for hour, minute in times:
        hours.setdefault(minute, []).append(hour)
    return tuple(f"{minute} {','.join(map(str, sorted(set(hours[minute]))))} * * {weekdays}" for minute in sorted(hours))
