"""The times of schedules: daylight saving, leap days, month ends, long absences, clocks that jump."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings, strategies as st

from hermes_schedule import latest_and_missed, next_after, parse

BERLIN, NEW_YORK, LORD_HOWE = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York"), ZoneInfo("Australia/Lord_Howe")
UTC_ZONE = ZoneInfo("UTC")
CREATED = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)


def at(text: str, zone: ZoneInfo = UTC_ZONE) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)


def runs(text: str, after: datetime, count: int, zone: ZoneInfo = UTC_ZONE) -> list[str]:
    """The next times after `after`, as the zone's wall clock shows them."""
    found: list[str] = []
    while len(found) < count and (time := next_after([parse(text)], after, zone, CREATED)) is not None:
        found.append(f"{time.astimezone(zone):%m-%d %H:%M %Z}")
        after = time
    return found


def test_a_fixed_time_that_the_clock_jumps_over_runs_right_after_the_jump() -> None:
    assert runs("30 2 * * *", at("2026-03-28 12:00", BERLIN), 3, BERLIN) == [
        "03-29 03:00 CEST",
        "03-30 02:30 CEST",
        "03-31 02:30 CEST",
    ]


def test_a_fixed_time_that_comes_twice_runs_once() -> None:
    assert runs("30 2 * * *", at("2026-10-24 12:00", BERLIN), 3, BERLIN) == [
        "10-25 02:30 CEST",
        "10-26 02:30 CET",
        "10-27 02:30 CET",
    ]


def test_every_quarter_of_an_hour_follows_elapsed_time_through_gap_and_fold() -> None:
    assert runs("*/30 * * * *", at("2026-03-29 01:00", BERLIN), 3, BERLIN) == [
        "03-29 01:30 CET",
        "03-29 03:00 CEST",
        "03-29 03:30 CEST",
    ]
    assert runs("*/30 * * * *", at("2026-10-25 02:00", BERLIN), 4, BERLIN) == [
        "10-25 02:30 CEST",
        "10-25 02:00 CET",
        "10-25 02:30 CET",
        "10-25 03:00 CET",
    ]


def test_intervals_know_no_daylight_saving() -> None:
    first = next_after([parse("every 12h")], at("2026-03-28 12:00", NEW_YORK), NEW_YORK, CREATED)
    assert first is not None
    second = next_after([parse("every 12h")], first, NEW_YORK, CREATED)
    assert second is not None
    assert second - first == timedelta(hours=12)


def test_leap_day_and_month_ends() -> None:
    assert runs("0 0 29 2 *", at("2026-01-01 00:00"), 2) == ["02-29 00:00 UTC", "02-29 00:00 UTC"]
    assert runs("0 0 31 * *", at("2026-01-31 00:00"), 3) == ["03-31 00:00 UTC", "05-31 00:00 UTC", "07-31 00:00 UTC"]
    assert runs("0 0 L * *", at("2028-02-01 00:00"), 2) == ["02-29 00:00 UTC", "03-31 00:00 UTC"]


def test_day_of_month_and_weekday_together_mean_either() -> None:
    assert runs("0 0 13 * 5", at("2026-02-01 00:00"), 3) == ["02-06 00:00 UTC", "02-13 00:00 UTC", "02-20 00:00 UTC"]


def test_a_delay_and_a_time_run_once() -> None:
    assert runs("in 30m", CREATED - timedelta(hours=1), 5) == ["01-01 12:30 UTC"]
    assert runs("in 30m", CREATED + timedelta(hours=1), 5) == []
    assert runs("2026-07-01T09:00", CREATED, 5, BERLIN) == ["07-01 09:00 CEST"]
    assert runs("2026-07-01T09:00+00:00", CREATED, 5, BERLIN) == ["07-01 11:00 CEST"]


def test_the_earliest_of_several_schedules_is_next() -> None:
    schedules = [parse("daily at 9am"), parse("every 1h"), parse("2026-01-01T12:20")]
    assert next_after(schedules, CREATED, UTC_ZONE, CREATED) == at("2026-01-01 12:20")


def test_a_year_away_costs_what_the_newest_runs_cost() -> None:
    missed = latest_and_missed(
        [parse("* * * * *")], at("2020-01-01 00:00"), at("2026-01-01 00:00"), UTC_ZONE, CREATED, limit=100
    )
    assert missed.more
    assert len(missed.runs) == 100
    assert missed.runs[-1] == at("2026-01-01 00:00")


def test_nothing_is_missed_when_the_clock_went_back() -> None:
    later, earlier = at("2026-05-01 10:00"), at("2026-05-01 09:00")
    missed = latest_and_missed([parse("* * * * *")], later, earlier, UTC_ZONE, CREATED, limit=10)
    assert (missed.runs, missed.more) == ((), False)


def test_several_expressions_are_all_walked() -> None:
    missed = latest_and_missed(
        [parse("daily at 9am and 5:30pm")], at("2026-05-01 00:00"), at("2026-05-02 00:00"), UTC_ZONE, CREATED, limit=10
    )
    assert missed.runs == (at("2026-05-01 09:00"), at("2026-05-01 17:30"))


EXPRESSIONS = [
    "*/17 * * * *", "30 2 * * *", "0 0 * * *", "15 1-3 * * *", "5 * * * *", "0 9 * * 1-5", "45 1 1,15 * *", "0 12 L * *",
    "daily at 2:30am and 3pm", "every 45m", "every 7h", "in 3h", "2026-03-29T02:30",
]  # fmt: skip


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.sampled_from(EXPRESSIONS), min_size=1, max_size=3, unique=True),
    st.sampled_from([UTC_ZONE, BERLIN, NEW_YORK, LORD_HOWE]),
    st.sampled_from(["2026-03-08", "2026-03-29", "2026-04-05", "2026-10-04", "2026-10-25", "2026-11-01", "2026-06-10"]),
    st.integers(-30 * 60, 30 * 60),
    st.integers(1, 40 * 60),
)
def test_walking_backwards_finds_what_walking_forwards_does(
    texts: list[str], zone: ZoneInfo, day: str, offset: int, minutes: int
) -> None:
    """A job that nobody looked at misses exactly the runs that it would have had."""
    schedules = [parse(text) for text in texts]
    after = at(day, zone) + timedelta(minutes=offset)
    until = after + timedelta(minutes=minutes)
    forwards = []
    time = next_after(schedules, after, zone, CREATED)
    while time is not None and time <= until:
        forwards.append(time)
        time = next_after(schedules, time, zone, CREATED)
    missed = latest_and_missed(schedules, after, until, zone, CREATED, limit=5000)
    assert list(missed.runs) == forwards
    newest = latest_and_missed(schedules, after, until, zone, CREATED, limit=3)
    assert list(newest.runs) == forwards[-3:]
    assert newest.more == (len(forwards) > 3)


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_times_are_whole_minutes_in_utc(text: str) -> None:
    time = next_after([parse(text)], CREATED, BERLIN, CREATED)
    assert time is not None
    assert (time.second, time.microsecond, time.tzinfo) == (0, 0, UTC)
