"""HermesCronJobs for those who have no rights in Kubernetes: requests over the bus, which the operator that leads answers.

The gateway calls `hermes.jobs.gateway.<method>` and says for whom: it has checked the API key. Every method may be repeated.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from hermes_contracts.crd.cron_job import DeliverTarget, ScheduleText
from hermes_contracts.names import DnsLabel, ObjectName
from hermes_contracts.store_api import Caller, Method

MAX_JOBS_OF_OWNER = 20
"""Jobs that one owner may have in a namespace."""
MIN_INTERVAL_SECONDS = 300
"""Shortest time between two runs of a job that is made this way."""

JobTitle = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"\S")]
JobPrompt = Annotated[str, StringConstraints(min_length=1, max_length=32_768, pattern=r"\S")]
Repeat = Annotated[int, Field(ge=1, le=1_000_000)]
Token = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z]{16,64}$")]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class JobOwner(_Message):
    """For whom: jobs of other owners, namespaces and Profiles do not exist for them."""

    namespace: DnsLabel
    owner: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    profiles: tuple[ObjectName, ...] = Field(min_length=1)


class ListJobs(_Message):
    """All of an owner's jobs."""

    by: JobOwner


class JobName(_Message):
    """One job, by the name of its object."""

    by: JobOwner
    id: ObjectName


class CreateJob(_Message):
    """A new job. The same owner, Profile and title are the same job."""

    by: JobOwner
    profile: ObjectName
    title: JobTitle
    schedule: ScheduleText
    time_zone: Annotated[str, StringConstraints(min_length=1, max_length=64)] = "UTC"
    prompt: JobPrompt
    repeat: Repeat | None = None
    deliver: tuple[DeliverTarget, ...] = Field(default=(), max_length=8)


class UpdateJob(_Message):
    """What is to change; None: stays. `suspend` pauses and resumes."""

    by: JobOwner
    id: ObjectName
    schedule: ScheduleText | None = None
    prompt: JobPrompt | None = None
    repeat: Repeat | None = None
    deliver: Annotated[tuple[DeliverTarget, ...], Field(max_length=8)] | None = None
    suspend: bool | None = None


class RunJob(_Message):
    """A run at once. The same token is the same run."""

    by: JobOwner
    id: ObjectName
    token: Token


class JobView(_Message):
    """A job as its owner sees it. Times are RFC 3339, empty when there is none."""

    id: str
    title: str
    profile: str
    schedules: tuple[str, ...]
    time_zone: str
    prompt: str
    repeat: int | None
    deliver: tuple[DeliverTarget, ...]
    suspended: bool
    created_at: str
    next_run: str
    last_run: str
    last_outcome: str
    last_delivery: str
    succeeded: int
    failed: int
    managed_by: str
    """Who else keeps its spec, for example a tool that applies a repository: then it is read-only here. Empty: nobody."""


class Jobs(_Message):
    """Oldest first."""

    jobs: tuple[JobView, ...]


class Deleted(_Message):
    """The job is gone; `existed` is False when it was before."""

    existed: bool


_GATEWAY: frozenset[Caller] = frozenset({"gateway"})

LIST_JOBS = Method("list", ListJobs, Jobs, _GATEWAY)
GET_JOB = Method("get", JobName, JobView, _GATEWAY)
CREATE_JOB = Method("create", CreateJob, JobView, _GATEWAY)
UPDATE_JOB = Method("update", UpdateJob, JobView, _GATEWAY)
DELETE_JOB = Method("delete", JobName, Deleted, _GATEWAY)
RUN_JOB = Method("run", RunJob, JobView, _GATEWAY)

JOB_METHODS = (LIST_JOBS, GET_JOB, CREATE_JOB, UPDATE_JOB, DELETE_JOB, RUN_JOB)
