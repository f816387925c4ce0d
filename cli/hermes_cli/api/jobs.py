"""The calls on scheduled jobs, with types."""

from __future__ import annotations

from pydantic import BaseModel

from hermes_cli.api.client import Api
from hermes_cli.api.sessions import shaped
from hermes_cli.errors import refused, usage


class Job(BaseModel):
    """A job as the API shows it."""

    id: str
    name: str
    profile: str
    prompt: str
    schedule: str
    time_zone: str
    deliver: str
    enabled: bool
    next_run_at: str | None = None
    last_run_at: str | None = None
    last_status: str | None = None
    last_delivery: str | None = None
    managed_by: str | None = None


class _One(BaseModel):
    job: Job


class _Many(BaseModel):
    jobs: list[Job]


async def list_jobs(api: Api) -> list[Job]:
    """Return all jobs of the key's owner, paused ones too."""
    return shaped(_Many, await api.call("GET", "/api/jobs", params={"include_disabled": "true"})).jobs


async def find_job(api: Api, word: str) -> Job:
    """Return the job of an id or a name. Raises CliError."""
    jobs = await list_jobs(api)
    found = [job for job in jobs if job.id == word] or [job for job in jobs if job.name.casefold() == word.casefold()]
    if not found:
        raise refused(f"no job {word!r} of yours", "see hermes cron list")
    if len(found) > 1:
        raise usage(f"{len(found)} jobs are called {word!r}", "give the id")
    return found[0]


async def make_job(api: Api, fields: dict[str, object]) -> Job:
    """Make a job, or return the one that an earlier try made."""
    return shaped(_One, await api.call("POST", "/api/jobs", body=fields)).job


async def run_job(api: Api, job: Job, idempotency_key: str) -> None:
    """Run a job at once."""
    await api.call("POST", f"/api/jobs/{job.id}/run", idempotency_key=idempotency_key)


async def suspend_job(api: Api, job: Job, *, suspend: bool) -> None:
    """Pause a job, or let it go on."""
    await api.call("POST", f"/api/jobs/{job.id}/{'pause' if suspend else 'resume'}")


async def delete_job(api: Api, job: Job) -> None:
    """Delete a job."""
    await api.call("DELETE", f"/api/jobs/{job.id}")
