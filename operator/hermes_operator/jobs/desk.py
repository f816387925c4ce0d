"""Answers requests about jobs with calls to the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.jobs import (
    MAX_JOBS_OF_OWNER,
    CreateJob,
    Deleted,
    JobName,
    JobOwner,
    Jobs,
    JobView,
    ListJobs,
    RunJob,
    UpdateJob,
)
from hermes_contracts.names import ANNOTATION_RUN_NOW, LABEL_JOB_OWNER, job_owner_label
from hermes_operator.cluster.client import ClusterClient, Manifest
from hermes_operator.cluster.errors import ClusterError
from hermes_operator.cluster.resources import CRON_JOBS
from hermes_operator.jobs.callers import Callers, Client, check_targets
from hermes_operator.jobs.objects import (
    belongs,
    changes_of,
    check_schedule,
    check_texts,
    managed_by,
    manifest_of,
    view_of,
)
from hermes_operator.reconcile.conditions import rfc3339
from hermes_service.rpc import Caller

_TRIES = 5
"""Writes of one change: each run of the job writes its status and so makes the version that was read an old one."""


@dataclass(frozen=True)
class Desk:
    """One for an operator that leads, so that creations are counted one after the other."""

    client: ClusterClient
    tenants: frozenset[str]
    callers: Callers
    now: Callable[[], datetime]
    _creating: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def list_jobs(self, caller: Caller, request: ListJobs) -> Jobs:
        """Return an owner's jobs."""
        by = (await self._client(caller, request.by)).by
        mine = [body for body in await self._jobs_of(by) if belongs(body, by)]
        return Jobs(jobs=tuple(view_of(body) for body in sorted(mine, key=_age)))

    async def get(self, caller: Caller, request: JobName) -> JobView:
        """Return one job. Raises HermesError NOT_FOUND."""
        return view_of(await self._find((await self._client(caller, request.by)).by, request.id))

    async def create(self, caller: Caller, request: CreateJob) -> JobView:
        """Make a job, or return the one that an earlier try of the same request made."""
        client = await self._client(caller, request.by)
        by = client.by
        profile = request.profile or by.profiles[0]
        if profile not in by.profiles:
            raise HermesError(ErrorCode.FORBIDDEN, f"profile: you may not use {profile}")
        manifest = manifest_of(request, by, profile)
        name = manifest["metadata"]["name"]
        first = check_schedule(request.schedule, request.time_zone, self.now())
        check_texts(request.title, request.prompt, request.script)
        check_targets(client, request.deliver)
        await self._check_context(by, tuple(job for job in request.context_from if job != name))
        async with self._creating:
            existing = await self.client.get(CRON_JOBS, by.namespace, name)
            if existing is None and len(await self._jobs_of(by)) >= MAX_JOBS_OF_OWNER:
                raise HermesError(ErrorCode.CONFLICT, f"you have {MAX_JOBS_OF_OWNER} jobs, and may have no more: delete one")
            if existing is None:
                made = view_of(await _readable(self.client.create(CRON_JOBS, manifest)))
                # Nobody has looked at the object yet, and who asked wants to know.
                return made if made.suspended else made.model_copy(update={"next_run": rfc3339(first.timestamp())})
        wanted, found = view_of(existing | {"spec": manifest["spec"]}), view_of(existing)
        if not belongs(existing, by) or wanted != found:
            raise HermesError(ErrorCode.CONFLICT, "name: you have a job of this name: change it, or choose another name")
        return found

    async def update(self, caller: Caller, request: UpdateJob) -> JobView:
        """Change a job. Raises HermesError FORBIDDEN for one that is kept elsewhere."""
        client = await self._client(caller, request.by)
        changes = changes_of(request)
        if not changes:
            raise HermesError(ErrorCode.INVALID, "nothing is to change: say what")
        check_texts(request.prompt, request.script)
        check_targets(client, request.deliver or ())
        await self._check_context(client.by, request.context_from or ())

        def change(body: Manifest) -> Manifest:
            if request.schedule is not None or request.time_zone is not None:
                spec = body["spec"] | changes
                for schedule in spec["schedules"]:
                    check_schedule(schedule, spec.get("timeZone", "UTC"), self.now())
            return {"spec": changes}

        return view_of(await self._change(client.by, request.id, change))

    async def run(self, caller: Caller, request: RunJob) -> JobView:
        """Start a run at once."""
        by = (await self._client(caller, request.by)).by
        note = {"metadata": {"annotations": {ANNOTATION_RUN_NOW: request.token}}}
        return view_of(await self._change(by, request.id, lambda _: note))

    async def delete(self, caller: Caller, request: JobName) -> Deleted:
        """Delete a job with the sessions of its runs; repeating it is harmless."""
        by = (await self._client(caller, request.by)).by
        try:
            body = await self._find(by, request.id)
        except HermesError as error:
            if error.code is ErrorCode.NOT_FOUND:
                return Deleted(existed=False)
            raise
        _refuse_foreign(body)
        meta = body["metadata"]
        await self.client.delete(CRON_JOBS, meta["namespace"], meta["name"], uid=meta["uid"])
        return Deleted(existed=True)

    async def _client(self, caller: Caller, by: JobOwner | None) -> Client:
        client = await self.callers.client(caller, by)
        if client.by.namespace not in self.tenants:
            raise HermesError(ErrorCode.FORBIDDEN, f"namespace {client.by.namespace} is none that agents may run in")
        return client

    async def _check_context(self, by: JobOwner, names: tuple[str, ...]) -> None:
        """Refuse jobs of others: their answers would be read."""
        for name in names:
            await self._find(by, name)

    async def _change(self, by: JobOwner, name: str, change: Callable[[Manifest], Manifest]) -> Manifest:
        for _ in range(_TRIES):
            body = await self._find(by, name)
            _refuse_foreign(body)
            patch, meta = change(body), body["metadata"]
            own = {key: meta[key] for key in ("namespace", "name", "resourceVersion")}
            try:
                return await _readable(self.client.merge(CRON_JOBS, patch | {"metadata": patch.get("metadata", {}) | own}))
            except ClusterError as error:
                if error.status != 409:
                    raise
        raise HermesError(ErrorCode.UNAVAILABLE, "the job changes all the time: try again", retryable=True)

    async def _find(self, by: JobOwner, name: str) -> Manifest:
        body = await self.client.get(CRON_JOBS, by.namespace, name)
        if body is None or not belongs(body, by):
            raise HermesError(ErrorCode.NOT_FOUND, f"you have no job {name}; one from a manifest is changed there")
        return body

    async def _jobs_of(self, by: JobOwner) -> list[Manifest]:
        label = f"{LABEL_JOB_OWNER}={job_owner_label(by.owner)}"
        return await self.client.list(CRON_JOBS, by.namespace, labels=label)


def _age(body: Manifest) -> tuple[str, str]:
    meta = body["metadata"]
    return meta.get("creationTimestamp", ""), meta["name"]


async def _readable(call: Awaitable[Manifest]) -> Manifest:
    """Cut what the API server puts in front of a rule's own words."""
    try:
        return await call
    except ClusterError as error:
        if error.status != 422:
            raise
        raise HermesError(ErrorCode.INVALID, error.message.partition(" is invalid: ")[2] or error.message) from error


def _refuse_foreign(body: Manifest) -> None:
    if manager := managed_by(body):
        raise HermesError(ErrorCode.FORBIDDEN, f"this job is kept by {manager}: change it there")
