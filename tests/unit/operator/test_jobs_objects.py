"""Jobs that are asked for over the bus, as objects: whose they are, who keeps them, how often they may run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from hermes_contracts.crd.cron_job import CronJobSpec
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.jobs import CreateJob, JobOwner, UpdateJob
from hermes_contracts.names import FIELD_MANAGER, MAX_CRON_NAME
from hermes_operator.jobs.objects import belongs, changes_of, check_schedule, managed_by, manifest_of, view_of

ADA = JobOwner(namespace="team", owner="ada@example.org", profiles=("helper",))
NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


def request(**fields: Any) -> CreateJob:
    blank = {"by": ADA, "profile": "helper", "title": "Morning news!", "schedule": "daily at 9am", "prompt": "Tell me."}
    return CreateJob.model_validate({**blank, **fields})


def made(by: JobOwner = ADA, **fields: Any) -> dict[str, Any]:
    return manifest_of(request(**fields), by, "helper")


def test_a_job_says_whose_it_is_without_naming_anybody_in_a_label() -> None:
    body = made()
    assert body["metadata"]["name"].startswith("morning-news-")
    assert "ada" not in str(body["metadata"]["labels"])
    assert belongs(body, ADA)
    assert not belongs(body, ADA.model_copy(update={"owner": "bob"}))
    assert not belongs(body, ADA.model_copy(update={"profiles": ("other",)}))
    body["metadata"]["labels"] = {}
    assert not belongs(body, ADA)


@pytest.mark.parametrize("title", ["Morning news!", "é" * 200, "x" * 200, "---"])
def test_every_title_makes_a_name_that_a_job_may_have(title: str) -> None:
    name = made(title=title)["metadata"]["name"]
    assert len(name) <= MAX_CRON_NAME
    assert name == name.strip("-").lower()
    assert name == made(title=title)["metadata"]["name"]
    assert name != made(ADA.model_copy(update={"owner": "bob"}), title=title)["metadata"]["name"]


def test_what_was_asked_for_is_what_is_shown() -> None:
    view = view_of(made(repeat=3))
    assert (view.title, view.schedules, view.repeat, view.suspended) == ("Morning news!", ("daily at 9am",), 3, False)
    changed = changes_of(UpdateJob(by=ADA, id="x", schedule="daily at noon", suspend=True, deliver=()))
    assert changed == {"schedules": ["daily at noon"], "suspend": True, "deliver": []}
    CronJobSpec.model_validate(made()["spec"] | changed)


def test_a_job_that_somebody_else_writes_says_who() -> None:
    body = made()
    ours = {"manager": FIELD_MANAGER, "fieldsV1": {"f:spec": {}}}
    status = {"manager": "anything", "fieldsV1": {"f:status": {}}}
    body["metadata"]["managedFields"] = [ours, status]
    assert managed_by(body) == ""
    body["metadata"]["managedFields"].append({"manager": "argocd", "fieldsV1": {"f:spec": {}}})
    assert managed_by(body) == "argocd"


@pytest.mark.parametrize("schedule", ["every 5m", "0 9 * * 1-5", "every monday 9am and 5:30pm", "2027-01-31T09:00", "in 2h"])
def test_a_schedule_that_may_be(schedule: str) -> None:
    check_schedule(schedule, "Europe/Berlin", NOW)


@pytest.mark.parametrize(
    ("schedule", "zone", "said"),
    [
        ("every 1m", "UTC", "at least 5 minutes apart"),
        ("0,1 9 * * 1", "UTC", "at least 5 minutes apart"),
        ("2020-01-31T09:00", "UTC", "never comes due"),
        ("when I feel like it", "UTC", "schedule: "),
        ("daily at noon", "Mars/Olympus", "time_zone: 'Mars/Olympus'"),
        ("daily at noon", "../../etc/passwd", "time_zone: "),
    ],
)
def test_a_schedule_that_is_refused_says_why(schedule: str, zone: str, said: str) -> None:
    with pytest.raises(HermesError, match=said) as refused:
        check_schedule(schedule, zone, NOW)
    assert refused.value.code is ErrorCode.INVALID
