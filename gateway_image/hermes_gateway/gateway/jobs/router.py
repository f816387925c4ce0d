"""Routes of the jobs API."""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from nats.aio.client import Client

from hermes_contracts import subjects
from hermes_contracts.access import ApiKeyRecord
from hermes_contracts.bus_permissions import Role
from hermes_contracts.jobs import (
    CREATE_JOB,
    DELETE_JOB,
    GET_JOB,
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
from hermes_contracts.names import MAX_CRON_NAME
from hermes_gateway.gateway.jobs.protocol import Job, JobAnswer, JobChanges, JobDeleted, JobsAnswer, NewJob, read_targets
from hermes_gateway.gateway.web.callers import IdempotencyKey, caller_with, problems
from hermes_gateway.gateway.web.errors import ApiError
from hermes_service.rpc import StoreClient

_PATIENCE_SECONDS = 10.0
"""How long a request waits for an operator that leads."""
_ID_PATTERN = rf"^[a-z0-9]([-a-z0-9]{{0,{MAX_CRON_NAME - 2}}}[a-z0-9])?$"

JobsCaller = Annotated[ApiKeyRecord, Depends(caller_with("jobs"))]


def jobs_client(bus: Client) -> StoreClient:
    """Return the operator's jobs as the gateway calls them."""
    return StoreClient(
        bus, lambda method: subjects.jobs(Role.GATEWAY, method), patience_seconds=_PATIENCE_SECONDS, server="the operator"
    )


def build_router(operator: StoreClient) -> APIRouter:
    """Build the routes."""
    router = APIRouter(prefix="/api/jobs", tags=["Jobs"])

    @router.get("", responses=problems(503))
    async def list_jobs(caller: JobsCaller, include_disabled: Annotated[bool, Query()] = False) -> JobsAnswer:
        """List your jobs; paused ones only with `include_disabled`."""
        found = await operator.call(LIST_JOBS, ListJobs(by=_by(caller)))
        jobs = (Job.of(view) for view in found.jobs)
        return JobsAnswer(jobs=[job for job in jobs if job.enabled or include_disabled])

    @router.post("", responses=problems(409, 503))
    async def create_job(body: NewJob, caller: JobsCaller) -> JobAnswer:
        """Make a job. Repeating the call is harmless; another job of the same name is refused."""
        profile = body.profile or caller.profiles[0]
        if profile not in caller.profiles:
            raise ApiError(403, f"profile: this key may not use {profile}", code="forbidden", param="profile")
        request = CreateJob(
            by=_by(caller),
            profile=profile,
            title=body.name,
            deliver=read_targets(body.deliver, caller.owner),
            **body.model_dump(include={"schedule", "time_zone", "prompt", "repeat", "skills"}),
        )
        return JobAnswer(job=Job.of(await operator.call(CREATE_JOB, request)))

    @router.get("/{job_id}", responses=problems(404, 503))
    async def get_job(job_id: str, caller: JobsCaller) -> JobAnswer:
        """Show a job."""
        return JobAnswer(job=Job.of(await operator.call(GET_JOB, _named(caller, job_id))))

    @router.patch("/{job_id}", responses=problems(404, 503))
    async def update_job(job_id: str, body: JobChanges, caller: JobsCaller) -> JobAnswer:
        """Change a job."""
        deliver = None if body.deliver is None else read_targets(body.deliver, caller.owner)
        suspend = None if body.enabled is None else not body.enabled
        changes = UpdateJob(
            by=_by(caller),
            id=_checked(job_id),
            deliver=deliver,
            suspend=suspend,
            **body.model_dump(include={"schedule", "prompt", "repeat", "skills"}),
        )
        return JobAnswer(job=Job.of(await operator.call(UPDATE_JOB, changes)))

    @router.delete("/{job_id}", responses=problems(404, 503))
    async def delete_job(job_id: str, caller: JobsCaller) -> JobDeleted:
        """Delete a job, and the sessions of its runs; their transcripts stay."""
        deleted = await operator.call(DELETE_JOB, _named(caller, job_id))
        if not deleted.existed:
            raise ApiError(404, f"you have no job {job_id}", code="not_found")
        return JobDeleted()

    @router.post("/{job_id}/pause", responses=problems(404, 503))
    async def pause_job(job_id: str, caller: JobsCaller) -> JobAnswer:
        """Start nothing by the clock."""
        request = UpdateJob(by=_by(caller), id=_checked(job_id), suspend=True)
        return JobAnswer(job=Job.of(await operator.call(UPDATE_JOB, request)))

    @router.post("/{job_id}/resume", responses=problems(404, 503))
    async def resume_job(job_id: str, caller: JobsCaller) -> JobAnswer:
        """Go by the clock again."""
        request = UpdateJob(by=_by(caller), id=_checked(job_id), suspend=False)
        return JobAnswer(job=Job.of(await operator.call(UPDATE_JOB, request)))

    @router.post("/{job_id}/run", responses=problems(404, 503))
    async def run_job(job_id: str, caller: JobsCaller, idempotency_key: IdempotencyKey = None) -> JobAnswer:
        """Run a job at once, also while it is paused. One Idempotency-Key is one run as long as no other was asked for."""
        token = secrets.token_hex(16)
        if idempotency_key is not None:
            token = hashlib.sha256(idempotency_key.encode()).hexdigest()[:32]
        request = RunJob(by=_by(caller), id=_checked(job_id), token=token)
        return JobAnswer(job=Job.of(await operator.call(RUN_JOB, request)))

    return router


def _by(caller: ApiKeyRecord) -> JobOwner:
    return JobOwner(namespace=caller.namespace, owner=caller.owner, profiles=caller.profiles)


def _named(caller: ApiKeyRecord, job_id: str) -> JobName:
    return JobName(by=_by(caller), id=_checked(job_id))


def _checked(job_id: str) -> str:
    if re.fullmatch(_ID_PATTERN, job_id) is None:
        raise ApiError(404, "you have no job of this id", code="not_found")
    return job_id
