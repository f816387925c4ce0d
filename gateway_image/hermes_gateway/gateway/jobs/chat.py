"""`/cron`: a person keeps scheduled jobs from a chat. The operator makes and changes them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from hermes_contracts.crd.cron_job import DeliverTarget
from hermes_contracts.envelopes import Route
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.job_words import job_named, show_job
from hermes_contracts.jobs import (
    CREATE_JOB,
    DELETE_JOB,
    LIST_JOBS,
    RUN_JOB,
    UPDATE_JOB,
    CreateJob,
    JobName,
    JobOwner,
    ListJobs,
    RunJob,
    UpdateJob,
)
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_service.rpc import StoreClient

_SECONDS = 1.0
_TITLE_CHARACTERS = 60
_QUOTE = r'["\u201c\u201d\u201e\u00ab\u00bb]'
"""Phones make others of the plain ones."""
_ADD = re.compile(rf"add\s+{_QUOTE}(.{{1,200}}?){_QUOTE}\s+(\S.*)", re.DOTALL)
_ON_ONE = re.compile(r"(pause|resume|run|remove)\s+(\S.{0,199})", re.DOTALL)
USAGE = (
    'Say `/cron` for your jobs, `/cron add "weekdays at 9am" Tell me the news.` for a new one, and `/cron pause`, `resume`, '
    "`run` or `remove` with a job's name or id."
)
_EMPTY = f"You have no scheduled jobs with this agent. {USAGE}"
_AWAY = "I cannot tell whether that worked, since what keeps the schedules does not answer. Say it again in a minute."


@dataclass(frozen=True)
class CronCommands:
    """Carries `/cron` out for the owner of a chat's session, with its Profile only. Repeating a message is harmless."""

    operator: StoreClient

    async def answer(self, argument: str, message: ChatMessage, route: Route) -> str:
        """Return what the person is told."""
        try:
            return await _Asked(self.operator, message, route).answer(argument.strip())
        except ValueError as error:
            return str(error)
        except HermesError as error:
            return _AWAY if error.code is ErrorCode.UNAVAILABLE else f"That was not possible: {error.message}."


class _Asked:
    def __init__(self, operator: StoreClient, message: ChatMessage, route: Route) -> None:
        self._operator = operator
        self._here = DeliverTarget.model_validate(message.place.model_dump())
        self._by = JobOwner(namespace=route.namespace, owner=route.owner, profiles=(route.profile,))
        self._token = hashlib.sha256(f"{route.sid}\0{message.update_id}".encode()).hexdigest()[:32]

    async def answer(self, argument: str) -> str:
        if argument in ("", "list"):
            jobs = (await self._call(LIST_JOBS, ListJobs(by=self._by))).jobs
            return "\n".join(f"- {show_job(job, origin=self._here)}" for job in jobs) or _EMPTY
        if match := _ADD.fullmatch(argument):
            return await self._add(match[1].strip(), match[2].strip())
        if match := _ON_ONE.fullmatch(argument):
            return await self._change(match[1], match[2].strip().strip("`"))
        return USAGE

    async def _add(self, schedule: str, prompt: str) -> str:
        title = " ".join(prompt.split())[:_TITLE_CHARACTERS]
        request = CreateJob(
            by=self._by,
            profile=self._by.profiles[0],
            title=title,
            schedule=schedule,
            prompt=prompt[:32_768],
            deliver=(self._here,),
        )
        return "Noted. " + show_job(await self._call(CREATE_JOB, request), origin=self._here)

    async def _change(self, what: str, word: str) -> str:
        job = job_named((await self._call(LIST_JOBS, ListJobs(by=self._by))).jobs, word)
        if what == "remove":
            await self._call(DELETE_JOB, JobName(by=self._by, id=job.id))
            return f"Removed: {job.title}."
        if what == "run":
            await self._call(RUN_JOB, RunJob(by=self._by, id=job.id, token=self._token))
            return f"{job.title} runs now."
        request = UpdateJob(by=self._by, id=job.id, suspend=what == "pause")
        return show_job(await self._call(UPDATE_JOB, request), origin=self._here)

    async def _call(self, method: Any, request: Any) -> Any:
        return await self._operator.call(method, request, timeout_seconds=_SECONDS, patience_seconds=_SECONDS)
