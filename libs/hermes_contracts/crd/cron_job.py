"""HermesCronJob: what an agent does by the clock."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from hermes_contracts.crd.base import ApiModel, Condition, ObjectRef
from hermes_contracts.crd.profile import Toolset
from hermes_contracts.names import HOME_CHANNEL, MAX_CRON_NAME, KeyText, ObjectName

MAX_QUEUED = 10
"""Runs that wait under `concurrencyPolicy: Queue`; older ones are skipped."""

ConcurrencyPolicy = Literal["Allow", "Forbid", "Replace", "Queue"]
MissedRunPolicy = Literal["Skip", "RunOnce", "RunAll"]
ScheduleText = Annotated[str, StringConstraints(min_length=1, max_length=200)]
SkillName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=64)]
MAX_SKILLS = 8
CHAT_CHANNELS = ("slack", "telegram")
"""Channels on which a target names a chat."""
DELIVER_CHANNELS = ("webhook", *CHAT_CHANNELS, HOME_CHANNEL)
"""Channels that a target may name."""


class DeliverTarget(ApiModel):
    """A place that answers are sent to."""

    channel: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,31}$")] = Field(
        description="Kind of channel: webhook, slack, telegram, or home: where a person wants to be told"
    )
    account: Annotated[str, StringConstraints(min_length=1, max_length=256)] = Field(
        description="Account on the channel, bound to this namespace by the administrator; of webhooks the route's name, "
        "of home the person as /whoami shows him"
    )
    chat: KeyText = Field(
        default="",
        description="Chat or room; webhooks get it as `thread`, and the job's name without one; of home the platform, or "
        "nothing for the home that was set last",
    )
    thread: KeyText = Field(default="", description="Thread inside the chat, where the channel has them")


class CronJobSpec(ApiModel):
    """When a job runs, what it does, and who hears of it."""

    schedules: tuple[ScheduleText, ...] = Field(
        min_length=1,
        max_length=8,
        description="When: '0 9 * * 1-5', 'weekdays at 9am', 'every 30m', '30m', '2027-01-31T09:00' or 'in 2h'; a time that "
        "several name is one run",
    )
    time_zone: Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_+/-]*$", max_length=64)] = Field(
        default="UTC", description="IANA name of the time zone that schedules are read in, for example Europe/Berlin"
    )
    profile_ref: ObjectRef = Field(description="Profile that the agent takes its settings from")
    prompt: Annotated[str, StringConstraints(max_length=32_768)] = Field(default="", description="What the agent is to do")
    skills: tuple[SkillName, ...] = Field(
        default=(),
        max_length=MAX_SKILLS,
        description="Skills that the agent reads before the prompt, in this order: skills/<name>/SKILL.md in the run's "
        "workspace, as its script has left it",
    )
    toolsets: Annotated[tuple[Toolset, ...], Field(max_length=16)] | None = Field(
        default=None, description="Narrows the Profile's toolsets for this job; an empty list means no tools"
    )
    script: Annotated[str, StringConstraints(max_length=32_768)] = Field(
        default="",
        description='Run by bash in the sandbox first; the agent is given its output. A last line {"wakeAgent": false} ends '
        "the run there, and nothing is sent",
    )
    no_agent: bool = Field(
        default=False, description="The script's output is the answer and no model is asked; no output: nothing is sent"
    )
    context_from: tuple[ObjectName, ...] = Field(
        default=(),
        max_length=5,
        description="HermesCronJobs of this namespace whose last answer the agent is given; may name this job itself",
    )
    deliver: tuple[DeliverTarget, ...] = Field(
        default=(),
        max_length=8,
        description="Where answers are sent, each on its own; none: they are kept and read on demand",
    )
    session_ref: ObjectRef | None = Field(
        default=None,
        description="HermesSession whose conversation the runs continue; default is a new session for every run",
    )
    concurrency_policy: ConcurrencyPolicy = Field(
        default="Forbid",
        description="What happens when a run is due and an earlier one goes on. Allow: both run; Forbid: the new one is "
        f"skipped; Replace: the old one is stopped first; Queue: the new one waits, at most {MAX_QUEUED} do",
    )
    starting_deadline_seconds: Annotated[int, Field(ge=10, le=31_622_400)] | None = Field(
        default=None, description="A run that could not be started for longer than this is skipped"
    )
    missed_run_policy: MissedRunPolicy = Field(
        default="RunOnce",
        description="What happens to runs that came due while nothing could start them. Skip: nothing; RunOnce: the newest "
        "runs for all of them; RunAll: the newest `maxMissedRuns` run, oldest first",
    )
    max_missed_runs: Annotated[int, Field(ge=1, le=20)] | None = Field(
        default=None, description="Most missed runs that RunAll makes up for; default is 5"
    )
    suspend: bool = Field(
        default=False, description="True: nothing is started by the clock; what comes due meanwhile counts as missed"
    )
    repeat: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="Runs by the clock after which the job is finished; default is for ever"
    )
    successful_runs_history_limit: int = Field(
        default=3, ge=0, le=100, description="Sessions of runs that succeeded, kept as objects; answers stay in the store"
    )
    failed_runs_history_limit: int = Field(default=3, ge=0, le=100, description="The same for runs that failed")


class CronRunStatus(ApiModel):
    """The newest run."""

    run: str = Field(default="", description="Scheduled minute in UTC, or `now-` and a hash for one asked for by annotation")
    time: str | None = Field(default=None, description="When it was due")
    session: str = Field(default="", description="HermesSession that it runs in")
    outcome: str = Field(default="", description="Waiting, Running, Succeeded, Silent, Failed or Lost")
    reason: str = Field(default="", description="How its turn ended, in one word")
    delivery: str = Field(default="", description="None, Pending, Delivered, Partial or Failed")


class QueuedRun(ApiModel):
    """A run that waits for an earlier one."""

    run: str
    time: str


class CronJobStatus(ApiModel):
    """What is true of the job. Written when something of it changes."""

    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()
    schedule: Annotated[str, StringConstraints(max_length=4096)] = Field(
        default="", description="Schedules and time zone that `countedFrom` is about"
    )
    counted_from: str | None = Field(default=None, description="Only times after this count: when the schedules were set")
    next_run: str | None = Field(default=None, description="When the clock starts the next run")
    last_scheduled: str | None = Field(
        default=None, description="Newest time that was dealt with, started or skipped; nothing at or before it is started"
    )
    last_run: CronRunStatus | None = None
    queued: Annotated[tuple[QueuedRun, ...], Field(max_length=MAX_QUEUED)] = ()
    active: int = Field(default=0, description="Runs that have not ended")
    started: int = Field(default=0, description="Runs that the clock started, ever")
    skipped: int = Field(default=0, description="Times that were skipped by a policy, ever")
    succeeded: int = Field(default=0, description="Runs that ended well, ever, those asked for by annotation included")
    failed: int = Field(default=0, description="Runs that did not")
    run_now: str = Field(default="", description="Value of annotation hermes.run/run-now that was dealt with last")


CRON_JOB_RULES: tuple[tuple[str, str, str], ...] = (
    ("", f"self.metadata.name.size() <= {MAX_CRON_NAME}", f"metadata.name must have at most {MAX_CRON_NAME} characters"),
    ("", "!self.metadata.name.contains('.')", "metadata.name must be one DNS label: no dots"),
    (
        "spec",
        "(has(self.prompt) && self.prompt.size() > 0) || (has(self.script) && self.script.size() > 0)",
        "there is nothing to do: set prompt, script or both",
    ),
    (
        "spec",
        "!self.noAgent || (has(self.script) && self.script.size() > 0)",
        "noAgent needs a script, whose output is the answer",
    ),
    (
        "spec",
        "!self.noAgent || ((!has(self.prompt) || self.prompt.size() == 0) && "
        "(!has(self.contextFrom) || self.contextFrom.size() == 0) && (!has(self.skills) || self.skills.size() == 0) && "
        "!has(self.toolsets))",
        "with noAgent nobody reads prompt, skills, contextFrom and toolsets: remove them",
    ),
    (
        "spec",
        "!has(self.toolsets) || !self.toolsets.exists(t, t == 'cronjob')",
        "a scheduled run keeps no schedules: remove cronjob from toolsets",
    ),
    (
        "spec",
        f"!has(self.deliver) || self.deliver.all(t, t.channel in {list(DELIVER_CHANNELS)})",
        f"deliver: the channels are {', '.join(DELIVER_CHANNELS)}",
    ),
    (
        "spec",
        f"!has(self.deliver) || self.deliver.all(t, !(t.channel in {list(CHAT_CHANNELS)}) || "
        "(has(t.chat) && t.chat.size() > 0))",
        f"deliver: name the chat on {' and '.join(CHAT_CHANNELS)}",
    ),
    (
        "spec",
        "!has(self.maxMissedRuns) || self.missedRunPolicy == 'RunAll'",
        "maxMissedRuns belongs to missedRunPolicy RunAll: set that, or remove it",
    ),
    (
        "spec",
        "!has(self.sessionRef) || self.concurrencyPolicy != 'Replace'",
        "concurrencyPolicy Replace would stop people's turns in the session of sessionRef: choose another",
    ),
)
"""CEL rules: (path below the root, expression, message)."""
