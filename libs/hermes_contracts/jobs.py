"""HermesCronJobs for those who have no rights in Kubernetes: requests over the bus, which the operator that leads answers.

The gateway calls `hermes.jobs.gateway.<method>` and says for whom: it has checked who asks. An agent calls
`hermes.jobs.<sid>.<epoch>.<method>` and says it not: its session does. Every method may be repeated.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from hermes_contracts.crd.cron_job import MAX_SKILLS, DeliverTarget, ScheduleText, SkillName
from hermes_contracts.crd.profile import Toolset
from hermes_contracts.names import DnsLabel, ObjectName
from hermes_contracts.store_api import Caller, Method

MAX_JOBS_OF_OWNER = 20
"""Jobs that one owner may have in a namespace."""
MIN_INTERVAL_SECONDS = 300
"""Shortest time between two runs of a job that is made this way."""
MAX_TARGETS = 8

JobTitle = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"\S")]
JobPrompt = Annotated[str, StringConstraints(min_length=1, max_length=32_768, pattern=r"\S")]
JobScript = Annotated[str, StringConstraints(max_length=32_768)]
Repeat = Annotated[int, Field(ge=1, le=1_000_000)]
Token = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z]{16,64}$")]
TimeZone = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class _Message(BaseModel):
    # Built at first use, as the store's are: an agent pays for the requests that it makes.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class JobOwner(_Message):
    """For whom: jobs of other owners, namespaces and Profiles do not exist for them."""

    namespace: DnsLabel
    owner: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    profiles: tuple[ObjectName, ...] = Field(min_length=1)


class _Asked(_Message):
    """`by`: the gateway says it; None from an agent."""

    by: JobOwner | None = None


class ListJobs(_Asked):
    """All of an owner's jobs."""


class JobName(_Asked):
    """One job, by the name of its object."""

    id: ObjectName


class CreateJob(_Asked):
    """A new job. The same owner, Profile and title are the same job."""

    profile: ObjectName | None = None
    """None: the first of those that may be used, which is an agent's own."""
    title: JobTitle
    schedule: ScheduleText
    time_zone: TimeZone = "UTC"
    prompt: Annotated[str, StringConstraints(max_length=32_768)] = ""
    """May be empty where a script says what there is to do."""
    skills: tuple[SkillName, ...] = Field(default=(), max_length=MAX_SKILLS)
    toolsets: Annotated[tuple[Toolset, ...], Field(max_length=16)] | None = None
    script: JobScript = ""
    no_agent: bool = False
    context_from: tuple[ObjectName, ...] = Field(default=(), max_length=5)
    """Jobs of the same owner."""
    repeat: Repeat | None = None
    deliver: tuple[DeliverTarget, ...] = Field(default=(), max_length=MAX_TARGETS)
    suspend: bool = False


class UpdateJob(_Asked):
    """What is to change; None: stays. `suspend` pauses and resumes."""

    id: ObjectName
    schedule: ScheduleText | None = None
    time_zone: TimeZone | None = None
    prompt: JobPrompt | None = None
    skills: Annotated[tuple[SkillName, ...], Field(max_length=MAX_SKILLS)] | None = None
    toolsets: Annotated[tuple[Toolset, ...], Field(max_length=16)] | None = None
    script: JobScript | None = None
    no_agent: bool | None = None
    context_from: Annotated[tuple[ObjectName, ...], Field(max_length=5)] | None = None
    repeat: Repeat | None = None
    deliver: Annotated[tuple[DeliverTarget, ...], Field(max_length=MAX_TARGETS)] | None = None
    suspend: bool | None = None


class RunJob(_Asked):
    """A run at once. The same token is the same run."""

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
    skills: tuple[str, ...] = ()
    toolsets: tuple[str, ...] | None = None
    script: str = ""
    no_agent: bool = False
    context_from: tuple[str, ...] = ()
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


_CALLERS: frozenset[Caller] = frozenset({"gateway", "agent"})

LIST_JOBS = Method("list", ListJobs, Jobs, _CALLERS)
GET_JOB = Method("get", JobName, JobView, _CALLERS)
CREATE_JOB = Method("create", CreateJob, JobView, _CALLERS)
UPDATE_JOB = Method("update", UpdateJob, JobView, _CALLERS)
DELETE_JOB = Method("delete", JobName, Deleted, _CALLERS)
RUN_JOB = Method("run", RunJob, JobView, _CALLERS)

JOB_METHODS = (LIST_JOBS, GET_JOB, CREATE_JOB, UPDATE_JOB, DELETE_JOB, RUN_JOB)
