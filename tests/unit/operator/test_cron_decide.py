"""When runs start: due, missed, forbidden, replaced, queued, asked for; and never twice."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from hermes_contracts.crd.cron_job import CronJobStatus
from hermes_operator.cluster.views import timestamp
from hermes_operator.reconcile.cron_model import Outcome, Totals
from hermes_operator.reconcile.model import ProfileVerdict, Unknown
from tests.unit.operator.builders import SPEC
from tests.unit.operator.cron_builders import (
    HOUR,
    MINUTE,
    NOW,
    after,
    at,
    caught_up,
    decide,
    drops,
    job,
    ready,
    run,
    starts,
    stops,
    told,
)


def test_nothing_starts_before_its_time_and_one_run_starts_at_it() -> None:
    view = caught_up(job(schedules=("0 10 * * *",)), NOW - 86_400)
    before = decide(view, now=NOW - 1)
    assert starts(before) == []
    assert (told(before).next_run, before.due) == (at(NOW), NOW)
    due = decide(view)
    assert starts(due) == [at(NOW)]
    assert told(due).last_scheduled == at(NOW)
    assert (told(due).next_run, told(due).started) == (at(NOW + 86_400), 1)
    assert told(due).last_run is not None
    again = decide(after(view, due), run(NOW))
    assert starts(again) == []
    assert decide(after(view, again), run(NOW)).status == told(again), "a pass over what was written writes nothing"


def test_a_start_whose_status_was_never_written_is_said_again_and_counted_once() -> None:
    view = caught_up(job(schedules=("0 10 * * *",)), NOW - 86_400)
    plan = decide(view, run(NOW, Outcome.WAITING), now=NOW + 30)
    assert starts(plan) == [at(NOW)]
    assert (told(plan).started, told(plan).active, told(plan).skipped) == (1, 1, 0)


@pytest.mark.parametrize(
    ("spec", "expected", "skipped"),
    [
        ({"missed_run_policy": "Skip"}, [], 5),
        ({"missed_run_policy": "RunOnce"}, [-1], 4),
        ({"missed_run_policy": "RunAll", "max_missed_runs": 3, "concurrency_policy": "Allow"}, [-3, -2, -1], 2),
        ({"missed_run_policy": "RunAll", "max_missed_runs": 20, "concurrency_policy": "Allow"}, [-5, -4, -3, -2, -1], 0),
        ({"missed_run_policy": "RunAll", "concurrency_policy": "Forbid"}, [-1], 4),
        ({"missed_run_policy": "RunAll", "concurrency_policy": "Replace"}, [-1], 4),
        ({"missed_run_policy": "RunOnce", "starting_deadline_seconds": 600}, [], 5),
        ({"missed_run_policy": "RunAll", "starting_deadline_seconds": 7200, "concurrency_policy": "Allow"}, [-2, -1], 3),
    ],
)
def test_missed_runs(spec: dict[str, Any], expected: list[int], skipped: int) -> None:
    """Five hourly runs were missed; it is half past the last one."""
    now = NOW - 0.5 * HOUR
    view = caught_up(job(schedules=("0 * * * *",), **spec), NOW - 6 * HOUR)
    plan = decide(view, now=now)
    assert starts(plan) == [at(NOW + hours * HOUR) for hours in expected]
    assert told(plan).skipped == skipped
    assert told(plan).last_scheduled == at(NOW - HOUR)
    assert starts(decide(after(view, plan), now=now + 1)) == []


def test_a_backlog_of_more_than_a_hundred_is_noted_and_costs_no_more() -> None:
    view = caught_up(job(schedules=("* * * * *",)), NOW - 30 * 86_400)
    plan = decide(view)
    assert starts(plan) == [at(NOW)]
    assert {note.reason for note in plan.notes} == {"RunsSkipped", "TooManyMissed"}


def test_forbid_skips_while_a_run_goes_on_and_a_dead_one_holds_up_nobody() -> None:
    view = caught_up(job(schedules=("0 * * * *",)), NOW - HOUR)
    busy = decide(view, run(NOW - HOUR))
    assert (starts(busy), told(busy).skipped, told(busy).last_scheduled) == ([], 1, at(NOW))
    for dead in (Outcome.LOST, Outcome.FAILED):
        assert starts(decide(view, run(NOW - HOUR, dead))) == [at(NOW)]
    assert starts(decide(view)) == [at(NOW)], "and one whose object is gone is no run"


def test_replace_stops_the_old_one_first_and_does_not_wait_for_ever() -> None:
    view = caught_up(job(schedules=("0 * * * *",), concurrency_policy="Replace"), NOW - HOUR)
    first = decide(view, run(NOW - HOUR))
    assert (stops(first), starts(first)) == ([at(NOW - HOUR)], [])
    assert [entry.run for entry in told(first).queued] == [at(NOW)]
    view = after(view, first)
    assert stops(decide(view, run(NOW - HOUR), now=NOW + 5)) == [at(NOW - HOUR)]
    ended = decide(view, run(NOW - HOUR, Outcome.FAILED), now=NOW + 5)
    assert (starts(ended), told(ended).queued) == ([at(NOW)], ())
    assert starts(decide(view, run(NOW - HOUR), now=NOW + MINUTE)) == [at(NOW)]


def test_the_queue_is_first_in_first_out_and_bounded() -> None:
    view = caught_up(job(schedules=("* * * * *",), concurrency_policy="Queue"), NOW - MINUTE)
    long_run = run(NOW - MINUTE)
    now = NOW
    for _ in range(12):
        plan = decide(view, long_run, now=now)
        assert starts(plan) == []
        view, now = after(view, plan), now + MINUTE
    waiting = [entry.run for entry in view.status.queued]
    assert waiting == [at(NOW + minutes * MINUTE) for minutes in range(2, 12)]
    assert view.status.skipped == 2
    plan = decide(view, replace(long_run, outcome=Outcome.SUCCEEDED), now=now - 1)
    assert starts(plan) == [at(NOW + 2 * MINUTE)]
    assert [entry.run for entry in told(plan).queued] == waiting[1:]


def test_allow_starts_beside_what_goes_on() -> None:
    view = caught_up(job(schedules=("0 * * * *",), concurrency_policy="Allow"), NOW - HOUR)
    plan = decide(view, run(NOW - HOUR))
    assert (starts(plan), told(plan).active) == ([at(NOW)], 2)


@pytest.mark.parametrize("spec", [{}, {"suspend": True}])
def test_asked_for_by_annotation_runs_once_a_value_even_when_suspended(spec: dict[str, Any]) -> None:
    view = caught_up(job(schedules=("0 0 1 1 *",), run_now="please", **spec), NOW)
    plan = decide(view)
    [name] = starts(plan)
    assert name.startswith("now-")
    assert (told(plan).run_now, told(plan).started) == ("please", 0)
    view = after(view, plan)
    assert starts(decide(view)) == []
    [other] = starts(decide(replace(view, run_now="again")))
    assert other != name


def test_suspended_starts_nothing_and_makes_up_for_it_as_the_policy_says() -> None:
    view = caught_up(job(schedules=("0 * * * *",), suspend=True), NOW - 3 * HOUR)
    plan = decide(view)
    assert (starts(plan), told(plan).next_run, ready(plan)) == ([], None, ("True", "Suspended"))
    awake = replace(after(view, plan), spec=view.spec.model_copy(update={"suspend": False}))
    assert starts(decide(awake, now=NOW + MINUTE)) == [at(NOW)]


def test_a_changed_schedule_names_no_time_of_the_past() -> None:
    view = caught_up(job(schedules=("0 12 * * *",)), NOW - 86_400)
    changed = replace(view, spec=view.spec.model_copy(update={"schedules": ("0 8 * * *",)}))
    plan = decide(changed)
    assert (starts(plan), told(plan).next_run) == ([], at(NOW + 22 * HOUR))
    assert told(plan).counted_from == at(NOW)


def test_repeat_ends_the_job() -> None:
    view = caught_up(
        job(schedules=("0 * * * *",), repeat=2, concurrency_policy="Allow", missed_run_policy="RunAll"), NOW - 5 * HOUR
    )
    plan = decide(view)
    assert (len(starts(plan)), told(plan).started, told(plan).next_run) == (2, 2, None)
    assert ready(plan) == ("True", "Finished")
    assert starts(decide(after(view, plan), now=NOW + 9 * HOUR)) == []


def test_a_clock_that_is_off_pauses_and_goes_on() -> None:
    view = caught_up(job(schedules=("0 * * * *",)), NOW - HOUR)
    for skew in (-6.0, 6.0):
        plan = decide(view, clock_skew=skew)
        clock = next(c for c in told(plan).conditions if c.type == "Clock")
        assert (starts(plan), clock.status, clock.reason) == ([], "False", "ClockSkew")
        assert told(plan).last_scheduled == view.status.last_scheduled
    assert starts(decide(view, clock_skew=4.9)) == [at(NOW)]


def test_a_clock_set_back_starts_nothing_again_and_one_set_forward_is_a_backlog() -> None:
    view = caught_up(job(schedules=("0 * * * *",)), NOW)
    for hours in (1, 5, 30):
        plan = decide(view, now=NOW - hours * HOUR)
        assert (starts(plan), told(plan).next_run) == ([], at(NOW + HOUR))
    assert starts(decide(view, now=NOW + 7 * HOUR)) == [at(NOW + 7 * HOUR)]


@pytest.mark.parametrize(
    ("zone", "schedule", "before", "expected"),
    [
        ("Europe/Berlin", "30 2 * * *", "2027-03-27T12:00:00Z", "2027-03-28T01:00:00Z"),
        ("Europe/Berlin", "30 2 * * *", "2027-10-30T12:00:00Z", "2027-10-31T00:30:00Z"),
        ("America/New_York", "0 9 * * 1-5", "2027-03-12T15:00:00Z", "2027-03-15T13:00:00Z"),
        ("UTC", "0 0 29 2 *", "2027-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("UTC", "0 0 31 * *", "2027-04-01T00:00:00Z", "2027-05-31T00:00:00Z"),
    ],
)
def test_time_zones_and_calendars(zone: str, schedule: str, before: str, expected: str) -> None:
    when = timestamp(before)
    view = caught_up(job(schedules=(schedule,), time_zone=zone, age=NOW - timestamp("2026-01-01T00:00:00Z")), when)
    assert told(decide(view, now=when)).next_run == expected
    assert starts(decide(view, now=timestamp(expected))) == [expected]
    assert starts(decide(view, now=timestamp(expected) - 1)) == []


PROFILE_BROKEN = ProfileVerdict(SPEC, False, "SecretMissing", "no key")


@pytest.mark.parametrize(
    ("spec", "facts", "expected"),
    [
        ({"schedules": ("whenever",)}, {}, ("False", "ScheduleUnreadable")),
        ({"time_zone": "Mars/Olympus"}, {}, ("False", "ScheduleUnreadable")),
        ({}, {"profile": None}, ("False", "ProfileMissing")),
        ({}, {"profile": PROFILE_BROKEN}, ("False", "ProfileNotReady")),
        ({}, {"profile": Unknown("not yet")}, ("Unknown", "ProfileUnknown")),
        ({"toolsets": ("terminal",)}, {"profile": replace(PROFILE_BROKEN, ready=True)}, ("True", "Scheduled")),
        ({"session_ref": {"name": "chat"}}, {"session": None}, ("False", "SessionMissing")),
        ({"context_from": ("weather",)}, {}, ("False", "JobMissing")),
        ({"deliver": ({"channel": "pigeon", "account": "coop"},)}, {}, ("False", "TargetUnknown")),
        ({"deliver": ({"channel": "home", "account": "slack:T1:U1"},)}, {}, ("True", "Scheduled")),
        ({"deliver": ({"channel": "home", "account": "slack:T1:U1", "chat": "telegram"},)}, {}, ("True", "Scheduled")),
        ({"deliver": ({"channel": "home", "account": "slack:T1:U1", "chat": "webhook"},)}, {}, ("False", "TargetUnknown")),
    ],
)
def test_what_cannot_work_is_said_and_costs_nothing(
    spec: dict[str, Any], facts: dict[str, Any], expected: tuple[str, str]
) -> None:
    view = caught_up(job(**{"schedules": ("0 * * * *",), "run_now": "x", **spec}), NOW - HOUR)
    plan = decide(view, **facts)
    assert ready(plan) == expected
    if expected[0] != "True":
        assert starts(plan) == []
        assert (told(plan).last_scheduled, told(plan).run_now) == (view.status.last_scheduled, "")


def test_nothing_is_decided_while_runs_are_unknown() -> None:
    plan = decide(caught_up(job(schedules=("0 * * * *",)), NOW - HOUR), runs=Unknown("the store is away"))
    assert (plan.actions, plan.status) == ((), None)
    assert plan.due is not None


def test_history_keeps_the_newest_and_whatever_is_still_being_sent() -> None:
    view = caught_up(job(successful_runs_history_limit=1, failed_runs_history_limit=0, schedules=("0 0 1 1 *",)), NOW)
    old, new = run(NOW - 3 * HOUR, Outcome.SUCCEEDED), run(NOW - HOUR, Outcome.SILENT)
    failed, sending = run(NOW - 2 * HOUR, Outcome.FAILED), run(NOW - 4 * HOUR, Outcome.FAILED, delivery="Pending")
    plan = decide(view, old, new, failed, sending)
    assert sorted(drops(plan)) == sorted([old.run, failed.run])


def test_of_runs_made_in_one_second_the_one_that_was_opened_last_is_the_newest() -> None:
    view = caught_up(job(successful_runs_history_limit=1, schedules=("0 0 1 1 *",)), NOW)
    first = run(NOW, Outcome.SUCCEEDED, run="now-zzz", opened_at=NOW + 0.2)
    second = run(NOW, Outcome.SUCCEEDED, run="now-aaa", opened_at=NOW + 0.4)
    assert drops(decide(view, second, first)) == ["now-zzz"]


def test_the_status_follows_the_newest_run_and_what_is_unknown_stays() -> None:
    view = caught_up(job(schedules=("0 * * * *",)), NOW - HOUR)
    view = after(view, decide(view))
    ended = decide(view, run(NOW, Outcome.FAILED, reason="model_error", delivery="Delivered"), totals=Totals(4, 1))
    last = told(ended).last_run
    assert last is not None
    assert (last.outcome, last.reason, last.delivery) == ("Failed", "model_error", "Delivered")
    assert (told(ended).succeeded, told(ended).failed) == (4, 1)
    kept = told(decide(after(view, ended)))
    assert (kept.last_run, kept.succeeded) == (last, 4), "also when its object has gone"
    lost = told(decide(view)).last_run
    assert lost is not None
    assert lost.outcome == "Lost", "a run that somebody deleted is not waited for"


@pytest.mark.parametrize("policy", ["Allow", "Forbid", "Replace", "Queue"])
@pytest.mark.parametrize("seed", range(8))
def test_whatever_happens_no_minute_is_started_twice_and_every_one_is_accounted_for(policy: str, seed: int) -> None:
    """Operators die between acting and writing, clocks jump, runs take their time."""
    chance = random.Random(seed)
    spec: dict[str, Any] = {
        "schedules": ("* * * * *",),
        "concurrency_policy": policy,
        "missed_run_policy": "RunAll",
        "max_missed_runs": 20,
    }
    view = caught_up(job(**spec), NOW)
    now, world, begun = NOW, dict[str, Any](), list[str]()
    for _ in range(300):
        now += chance.choice([1, 10, 30, 60, 61, 90, 200]) - (chance.random() < 0.05) * 150
        world = {name: replace(r, outcome=Outcome.SUCCEEDED) if chance.random() < 0.3 else r for name, r in world.items()}
        plan = decide(view, *world.values(), now=now)
        for name in starts(plan):
            if name not in world:
                begun.append(name)
                world[name] = run(timestamp(name))
        for name in stops(plan):
            world[name] = replace(world[name], outcome=Outcome.FAILED)
        if chance.random() < 0.8:
            for name in drops(plan):
                del world[name]
            view = after(view, plan)
    assert len(begun) == len(set(begun)), "a minute was started twice"
    status: CronJobStatus = view.status
    minutes = round((timestamp(status.last_scheduled) - NOW) / MINUTE)
    assert status.started + status.skipped + len(status.queued) == minutes
    if policy != "Allow":
        assert sum(1 for r in world.values() if r.active) <= (2 if policy == "Replace" else 1)
