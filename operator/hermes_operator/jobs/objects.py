"""HermesCronJobs as requests see and make them. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic.alias_generators import to_camel

from hermes_contracts.crd.base import ObjectRef
from hermes_contracts.crd.cron_job import CronJobSpec, CronJobStatus
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.injection.patterns import Scope
from hermes_contracts.injection.scan import scan
from hermes_contracts.jobs import MIN_INTERVAL_SECONDS, CreateJob, JobOwner, JobView, UpdateJob
from hermes_contracts.names import (
    ANNOTATION_JOB_TITLE,
    API_VERSION,
    FIELD_MANAGER,
    LABEL_JOB_OWNER,
    cron_job_name,
    job_owner_label,
)
from hermes_schedule import ScheduleError, next_after, parse

Manifest = dict[str, Any]
_LOOK_AHEAD = 50
"""Runs that are looked at: a crowded hour of a rare day is at the start of them."""


_FIELDS = (
    "prompt",
    "skills",
    "toolsets",
    "script",
    "no_agent",
    "context_from",
    "repeat",
    "deliver",
    "suspend",
)
"""Of the spec, that requests name as the definition does."""


def manifest_of(request: CreateJob, by: JobOwner, profile: str) -> Manifest:
    """Return the object of a new job."""
    spec = CronJobSpec(
        schedules=(request.schedule,),
        time_zone=request.time_zone,
        profile_ref=ObjectRef(name=profile),
        **{name: getattr(request, name) for name in _FIELDS},
    )
    return {
        "apiVersion": API_VERSION,
        "kind": "HermesCronJob",
        "metadata": {
            "name": cron_job_name(by.owner, profile, request.title),
            "namespace": by.namespace,
            "labels": {LABEL_JOB_OWNER: job_owner_label(by.owner)},
            "annotations": {ANNOTATION_JOB_TITLE: request.title},
        },
        "spec": spec.model_dump(mode="json", by_alias=True, exclude_defaults=True),
    }


def changes_of(request: UpdateJob) -> Manifest:
    """Return the fields of the spec that a request changes."""
    found = request.model_dump(mode="json", by_alias=True, include={*_FIELDS, "time_zone"}, exclude_none=True)
    fields = {to_camel(name): value for name, value in found.items()}
    if request.schedule is not None:
        fields["schedules"] = [request.schedule]
    return fields


def belongs(body: Manifest, by: JobOwner) -> bool:
    """Tell whether a job is this owner's, of a Profile that they may use."""
    labels = body["metadata"].get("labels") or {}
    mine = labels.get(LABEL_JOB_OWNER) == job_owner_label(by.owner)
    return mine and body["spec"]["profileRef"]["name"] in by.profiles


def managed_by(body: Manifest) -> str:
    """Name who else has written fields of the spec, or return an empty string."""
    for entry in body["metadata"].get("managedFields") or []:
        if entry.get("manager") != FIELD_MANAGER and "f:spec" in (entry.get("fieldsV1") or {}):
            return str(entry.get("manager", "somebody"))[:128]
    return ""


def view_of(body: Manifest) -> JobView:
    """Show an object."""
    meta, spec = body["metadata"], CronJobSpec.model_validate(body["spec"])
    status = CronJobStatus.model_validate(body.get("status") or {})
    last = status.last_run
    return JobView(
        id=meta["name"],
        title=(meta.get("annotations") or {}).get(ANNOTATION_JOB_TITLE, meta["name"]),
        profile=spec.profile_ref.name,
        schedules=spec.schedules,
        time_zone=spec.time_zone,
        **{name: getattr(spec, name) for name in _FIELDS if name != "suspend"},
        suspended=spec.suspend,
        created_at=meta.get("creationTimestamp", ""),
        next_run=status.next_run or "",
        last_run=(last.time or "") if last else "",
        last_outcome=last.outcome if last else "",
        last_delivery=last.delivery if last else "",
        succeeded=status.succeeded,
        failed=status.failed,
        managed_by=managed_by(body),
    )


def check_schedule(text: str, time_zone: str, now: datetime) -> datetime:
    """Return the first time of a schedule. `now` has a time zone.

    Raises HermesError INVALID for what is no schedule, never comes due, or comes due too often.
    """
    try:
        zone = ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise _invalid(f"time_zone: {time_zone[:64]!r} is no IANA time zone, such as Europe/Berlin") from error
    try:
        schedule = parse(text)
    except ScheduleError as error:
        raise _invalid(f"schedule: {error}") from error
    first = last = next_after([schedule], now, zone, now)
    if first is None or last is None:
        raise _invalid(f"schedule: {text!r} never comes due: name a time to come")
    for _ in range(_LOOK_AHEAD):
        following = next_after([schedule], last, zone, now)
        if following is None:
            break
        if (following - last).total_seconds() < MIN_INTERVAL_SECONDS:
            raise _invalid(f"schedule: runs are at least {MIN_INTERVAL_SECONDS // 60} minutes apart: make it rarer")
        last = following
    return first


def check_texts(*texts: str | None) -> None:
    """Raise HermesError INVALID for text that wants to take over the agent that will read it, or its machine."""
    for text in filter(None, texts):
        if (found := scan(text, Scope.STRICT)) is not None:
            raise _invalid(f"this looks like an attempt to take over the agent ({found}): say it in another way")


def _invalid(message: str) -> HermesError:
    return HermesError(ErrorCode.INVALID, message)
