"""`cronjob_manage`: the agent keeps schedules for the person it talks to. The operator makes and changes them."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, StringConstraints

from hermes_agent.tools.base import BARRIER, Arguments, Tool, ToolContext, ToolFailure
from hermes_contracts.errors import HermesError

if TYPE_CHECKING:
    from hermes_agent.store_port import Store
    from hermes_contracts.crd.cron_job import DeliverTarget
    from hermes_contracts.envelopes import Inbound
    from hermes_contracts.jobs import JobView

TOOLSET = "cronjob"

_DEADLINE_SECONDS = 60.0
_CHANGES = ("schedule", "time_zone", "prompt", "skills", "script", "no_agent", "repeat")
"""Arguments that the operator's requests name as the tool does."""
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class CronjobArguments(Arguments):
    """Arguments of `cronjob_manage`."""

    action: Literal["create", "list", "update", "pause", "resume", "remove", "run"] = Field(
        description="create needs schedule and prompt (or script); update, pause, resume, remove and run need job_id"
    )
    job_id: str | None = Field(default=None, max_length=200, description="Id or name of a job, as list shows it")
    name: Name | None = Field(default=None, description="What a new job is called; default is the start of its prompt")
    schedule: str | None = Field(
        default=None,
        max_length=200,
        description="'weekdays at 9am', 'every 2h', '0 9 * * 1-5', '2027-01-31T09:00' (once) or 'in 30m' (once)",
    )
    time_zone: str | None = Field(
        default=None, max_length=64, description="IANA name that the schedule is read in, such as Europe/Berlin; default UTC"
    )
    prompt: str | None = Field(
        default=None,
        max_length=32_768,
        description="What to do, complete in itself: a run starts without this conversation and can ask nobody",
    )
    repeat: int | None = Field(default=None, ge=1, description="Runs until the job is finished; default is for ever")
    deliver: str | None = Field(
        default=None,
        max_length=200,
        description="Where answers go: origin (this chat, the default), home (the user's home chat), slack or telegram (his "
        "home there), local (nowhere, kept); several with commas",
    )
    skills: list[Name] | None = Field(
        default=None, max_length=8, description="Skills that a run reads first: skills/<name>/SKILL.md of its workspace"
    )
    script: str | None = Field(
        default=None,
        max_length=32_768,
        description="Bash that a run executes first, in an empty workspace; the run's agent reads its output",
    )
    no_agent: bool | None = Field(default=None, description="The script's output is the answer; without prompt and skills")
    context_from: list[Name] | None = Field(
        default=None, max_length=5, description="Ids or names of jobs whose last answer a run reads"
    )
    enabled_toolsets: list[Name] | None = Field(default=None, max_length=16, description="Toolsets that a run may use")


async def _run(arguments: CronjobArguments, context: ToolContext) -> str:
    if context.jobs is None or context.inbound is None or context.inbound.run is not None:
        raise ToolFailure("Schedules cannot be kept from here.")
    try:
        return await _Schedules(context.jobs, context.inbound, arguments).answer()
    except ValueError as error:
        raise ToolFailure(_first_line(error)) from error
    except HermesError as error:
        raise ToolFailure(error.message) from error


def _first_line(error: ValueError) -> str:
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    found = error.errors(include_input=False, include_url=False)[:3]
    return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in found)


class _Schedules:
    """Carries one call out. Raises HermesError and ValueError, both with a sentence."""

    def __init__(self, operator: Store, inbound: Inbound, arguments: CronjobArguments) -> None:
        # Loaded with the first call: the definitions are half of an agent's start-up otherwise.
        from hermes_contracts import job_words, jobs

        self._jobs, self._words = jobs, job_words
        self._operator = operator
        self._inbound = inbound
        self._arguments = arguments
        self._origin = origin_of(inbound)

    async def answer(self) -> str:
        match self._arguments.action:
            case "create":
                return "Created. " + self._show(await self._create())
            case "list":
                found = [self._show(job) for job in await self._all()]
                return "\n".join(f"- {line}" for line in found) or "There are no jobs."
            case "update":
                return "Changed. " + self._show(await self._update({**self._fields(), **await self._named_fields()}))
            case "pause":
                return "Paused. " + self._show(await self._update({"suspend": True}))
            case "resume":
                return "Resumed. " + self._show(await self._update({"suspend": False}))
            case "run":
                request = self._jobs.RunJob(id=(await self._found()).id, token=secrets.token_hex(16))
                job = await self._operator.call(self._jobs.RUN_JOB, request)
                return f"{job.title} runs now. Its answer goes to: {self._where(job)}."
            case "remove":
                job = await self._found()
                await self._operator.call(self._jobs.DELETE_JOB, self._jobs.JobName(id=job.id))
                return f"Removed {job.title}."

    async def _create(self) -> JobView:
        arguments = self._arguments
        if arguments.schedule is None:
            raise ValueError("schedule: create needs one")
        what = (arguments.prompt or arguments.script or "").strip()
        if not what:
            raise ValueError("prompt: create needs one, or a script")
        title = arguments.name or " ".join(what.split())[:60]
        fields = {"deliver": self._targets("origin"), **self._fields(), **await self._named_fields()}
        request = self._jobs.CreateJob(title=title, **fields)
        return await self._operator.call(self._jobs.CREATE_JOB, request)

    async def _update(self, fields: dict[str, Any]) -> JobView:
        request = self._jobs.UpdateJob(id=(await self._found()).id, **fields)
        return await self._operator.call(self._jobs.UPDATE_JOB, request)

    def _fields(self) -> dict[str, Any]:
        arguments = self._arguments
        found = {name: getattr(arguments, name) for name in _CHANGES if getattr(arguments, name) is not None}
        if arguments.deliver is not None:
            found["deliver"] = self._targets(arguments.deliver)
        if arguments.enabled_toolsets is not None:
            found["toolsets"] = arguments.enabled_toolsets
        return found

    async def _named_fields(self) -> dict[str, Any]:
        """Return what names other jobs, by their ids."""
        if self._arguments.context_from is None:
            return {}
        known = await self._all()
        return {"context_from": [self._words.job_named(known, word).id for word in self._arguments.context_from]}

    async def _found(self) -> JobView:
        if self._arguments.job_id is None:
            raise ValueError(f"job_id: {self._arguments.action} needs one; list shows them")
        return self._words.job_named(await self._all(), self._arguments.job_id)

    async def _all(self) -> tuple[JobView, ...]:
        return (await self._operator.call(self._jobs.LIST_JOBS, self._jobs.ListJobs())).jobs

    def _targets(self, words: str) -> tuple[DeliverTarget, ...]:
        return self._words.targets_of(words, origin=self._origin, owner=self._inbound.owner)

    def _show(self, job: JobView) -> str:
        return self._words.show_job(job, origin=self._origin)

    def _where(self, job: JobView) -> str:
        return self._words.words_of(job.deliver, origin=self._origin)


def origin_of(inbound: Inbound) -> DeliverTarget | None:
    """Return the chat that a message is answered in; None where answers are fetched and not sent."""
    from hermes_contracts.crd.cron_job import DeliverTarget

    return None if inbound.reply_to is None else DeliverTarget.model_validate(inbound.reply_to.model_dump())


TOOLS = (
    Tool(
        name="cronjob_manage",
        toolset=TOOLSET,
        description=(
            "Keep jobs that run by the clock: each run is an agent of its own that does the job's prompt and sends its "
            "answer. Jobs belong to the user; use list before you change or remove one."
        ),
        arguments=CronjobArguments,
        run=_run,
        access=lambda _: BARRIER,
        deadline_seconds=lambda _: _DEADLINE_SECONDS,
        command=lambda a: a.script or "",
    ),
)
