"""Every form of the grammar, in the order in which they are tried, and what is said about text that is none."""

from datetime import UTC, datetime

import pytest

from hermes_schedule import Schedule, ScheduleError, parse

WORDS = [
    ("every monday 9am", ("0 9 * * 1",)),
    ("Monday at 9:30pm", ("30 21 * * 1",)),
    ("monday, wednesday at 9am", ("0 9 * * 1,3",)),
    ("mon, wed and fri at 14:00", ("0 14 * * 1,3,5",)),
    ("weekdays at 9am", ("0 9 * * 1-5",)),
    ("weekdays at 9am and 5pm", ("0 9,17 * * 1-5",)),
    ("weekdays at 9am and 5:30pm", ("0 9 * * 1-5", "30 17 * * 1-5")),
    ("weekends at 10am", ("0 10 * * 0,6",)),
    ("daily at 7am", ("0 7 * * *",)),
    ("every day at noon", ("0 12 * * *",)),
    ("every day 7", ("0 7 * * *",)),
    ("daily at midnight", ("0 0 * * *",)),
    ("Sundays at 12am", ("0 0 * * 0",)),
    ("tues and thurs at 12 pm", ("0 12 * * 2,4",)),
]


@pytest.mark.parametrize(("text", "expressions"), WORDS)
def test_days_and_times_in_words(text: str, expressions: tuple[str, ...]) -> None:
    assert parse(text) == Schedule("cron", " ".join(text.split()), expressions=expressions)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("every 30m", 1800),
        ("every 30 minutes", 1800),
        ("every hour", 3600),
        ("every day", 86_400),
        ("every 2 days", 172_800),
        ("every 1h30m", 5400),
        ("every  2   hours", 7200),
        ("30m", 1800),
        ("2h", 7200),
        ("1 day", 86_400),
    ],
)
def test_intervals(text: str, seconds: int) -> None:
    found = parse(text)
    assert (found.kind, found.seconds, found.is_recurring) == ("interval", seconds, True)


@pytest.mark.parametrize(("text", "seconds"), [("in 30m", 1800), ("in 2 hours", 7200), ("In 1d", 86_400)])
def test_a_delay_runs_once(text: str, seconds: int) -> None:
    found = parse(text)
    assert (found.kind, found.seconds, found.is_recurring) == ("delay", seconds, False)


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("0 9 * * 1-5", "0 9 * * 1-5"),
        ("*/15 * * * *", "*/15 * * * *"),
        ("0 0 1 JAN *", "0 0 1 JAN *"),
        ("30 8 * * MON,FRI", "30 8 * * MON,FRI"),
        ("0 0 L * *", "0 0 L * *"),
        ("0 12 * * 5#2", "0 12 * * 5#2"),
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
    ],
)
def test_cron_expressions(text: str, expression: str) -> None:
    assert parse(text) == Schedule("cron", text, expressions=(expression,))


def test_a_time_with_an_offset_is_that_instant_and_without_one_is_the_jobs_own() -> None:
    assert parse("2027-01-31T09:00+00:00").at == datetime(2027, 1, 31, 9, tzinfo=UTC)
    assert parse("2027-01-31 09:00:59").at == datetime(2027, 1, 31, 9)
    assert parse("2027-01-31").at == datetime(2027, 1, 31)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ("soon", "is not a schedule: write for example"),
        ("every", "is not a schedule"),
        ("every 30 parsecs", "is not a schedule"),
        ("every 0m", "between one minute and 366 days"),
        ("in 400d", "between one minute and 366 days"),
        ("every monday", "does not say when"),
        ("daily", "does not say when"),
        ("daily at 25:00", "there is no time '25:00'"),
        ("daily at 13pm", "there is no time '13pm'"),
        ("daily at 0am", "there is no time '0am'"),
        ("daily at teatime", "'teatime' is not a time"),
        ("0 9 * * 1-5 0", "six fields"),
        ("61 * * * *", "bad minute"),
        ("0 24 * * *", "bad hour"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("*/0 * * * *", "bad minute"),
        ("2027-13-01", "is not a time"),
        ("2027-01-31T25:00", "is not a time"),
        ("in", "is not a schedule"),
        ("in the morning", "is not a schedule"),
        ("x" * 300, "more than 200 characters"),
        ("٣ * * * *", "is not a schedule"),
    ],
)
def test_what_is_said_about_text_that_is_no_schedule(text: str, says: str) -> None:
    with pytest.raises(ScheduleError, match="(?i)" + says.replace("(", r"\(")):
        parse(text)
