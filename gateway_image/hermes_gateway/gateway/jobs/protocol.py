"""Bodies of the jobs API."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from hermes_contracts.crd.cron_job import MAX_SKILLS, DeliverTarget, ScheduleText, SkillName
from hermes_contracts.job_words import targets_of, words_of
from hermes_contracts.jobs import JobPrompt, JobTitle, JobView, Repeat
from hermes_gateway.gateway.web.errors import ApiError

_LOCAL = "local"

Deliver = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Skills = Annotated[list[SkillName], Field(max_length=MAX_SKILLS)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewJob(_Body):
    """A job. Without `profile` the key's first one does it."""

    name: JobTitle
    schedule: ScheduleText
    prompt: JobPrompt
    profile: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    time_zone: Annotated[str, StringConstraints(min_length=1, max_length=64)] = "UTC"
    repeat: Repeat | None = None
    deliver: Deliver = _LOCAL
    """`local`: the answer is kept; `home`, `slack`, `telegram`: it is sent to the owner's home chat (there) as well;
    `webhook:<route>`: to the route's `reply_url`. Several with commas."""
    skills: Skills = []
    """Read before the prompt: `skills/<name>/SKILL.md` of the run's workspace."""


class JobChanges(_Body):
    """What is to change."""

    schedule: ScheduleText | None = None
    prompt: JobPrompt | None = None
    repeat: Repeat | None = None
    deliver: Deliver | None = None
    skills: Skills | None = None
    enabled: bool | None = None


class Job(BaseModel):
    """A job. Times are RFC 3339, null when there is none."""

    id: str
    name: str
    profile: str
    prompt: str
    skills: list[str]
    schedule: str
    schedule_display: str
    time_zone: str
    repeat: int | None
    deliver: str
    enabled: bool
    state: Literal["scheduled", "paused", "completed"]
    created_at: str | None
    next_run_at: str | None
    last_run_at: str | None
    last_status: str | None = Field(description="Waiting, Running, Succeeded, Silent, Failed or Lost")
    last_delivery: str | None = Field(description="None, Pending, Delivered, Partial or Failed")
    succeeded: int
    failed: int
    managed_by: str | None = Field(description="Who keeps this job elsewhere; it is read-only here then")

    @classmethod
    def of(cls, view: JobView) -> Job:
        """Show what the operator knows."""
        schedule = "; ".join(view.schedules)
        return cls(
            id=view.id,
            name=view.title,
            schedule=schedule,
            schedule_display=schedule,
            deliver=words_of(view.deliver),
            enabled=not view.suspended,
            state=_state(view),
            created_at=view.created_at or None,
            next_run_at=view.next_run or None,
            last_run_at=view.last_run or None,
            last_status=view.last_outcome or None,
            last_delivery=view.last_delivery or None,
            managed_by=view.managed_by or None,
            **view.model_dump(include={"profile", "prompt", "skills", "time_zone", "repeat", "succeeded", "failed"}),
        )


class JobAnswer(BaseModel):
    """One job."""

    job: Job


class JobsAnswer(BaseModel):
    """Oldest first."""

    jobs: list[Job]


class JobDeleted(BaseModel):
    """The job is gone."""

    ok: bool = True


def read_targets(deliver: str, owner: str) -> tuple[DeliverTarget, ...]:
    """Read `deliver`. Raises ApiError 400."""
    try:
        return targets_of(deliver, origin=None, owner=owner)
    except ValueError as error:
        raise ApiError(400, str(error), code="invalid_value", param="deliver") from error


def _state(view: JobView) -> Literal["scheduled", "paused", "completed"]:
    if view.suspended:
        return "paused"
    # A job that was made this moment has no next run yet, and no run behind it.
    return "scheduled" if view.next_run or not view.last_run else "completed"
