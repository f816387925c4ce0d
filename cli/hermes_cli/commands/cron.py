"""`hermes cron`: schedules, over the API where the gateway's address is known, else through kubectl."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from hermes_cli.api.client import Api
from hermes_cli.api.jobs import Job, delete_job, find_job, list_jobs, make_job, run_job, suspend_job
from hermes_cli.commands.cluster import cell, kubectl_of
from hermes_cli.commands.cluster_jobs import ClusterJobs
from hermes_cli.connection.choose import Direct, choose
from hermes_cli.connection.contexts import read_configuration
from hermes_cli.connection.opening import connected
from hermes_cli.errors import ExitCode, usage
from hermes_cli.options import Options
from hermes_cli.show.console import output, print_fields, print_json, print_table
from hermes_cli.show.text import one_line

_COLUMNS = ("name", "schedules", "profile", "suspended", "ready", "next", "last")

Facts = dict[str, Any]
Shown = tuple[Any, list[tuple[str, str]]]
"""What `--json` prints, and what a person reads."""


class Schedules(Protocol):
    """Where schedules are kept. Every method raises CliError."""

    async def all(self) -> list[Facts]:
        """List them."""

    async def one(self, word: str) -> Shown:
        """Show one."""

    async def run(self, word: str) -> str:
        """Run one now; return its name."""

    async def suspend(self, word: str, *, suspend: bool) -> str:
        """Pause one, or let it go on; return its name."""

    async def remove(self, word: str) -> str:
        """Delete one; return its name."""


@dataclass(frozen=True)
class ApiJobs:
    """The jobs of the key's owner."""

    api: Api

    async def all(self) -> list[Facts]:
        """List them."""
        return [job_facts(job) for job in await list_jobs(self.api)]

    async def one(self, word: str) -> Shown:
        """Show one."""
        job = await find_job(self.api, word)
        facts = [(key, cell(value)) for key, value in job_facts(job).items()]
        more = [("deliver", job.deliver), ("kept by", job.managed_by or "you"), ("prompt", one_line(job.prompt, 200))]
        return job.model_dump(), [*facts, *more]

    async def run(self, word: str) -> str:
        """Run one now."""
        job = await find_job(self.api, word)
        await run_job(self.api, job, secrets.token_hex(16))
        return job.id

    async def suspend(self, word: str, *, suspend: bool) -> str:
        """Pause one, or let it go on."""
        job = await find_job(self.api, word)
        await suspend_job(self.api, job, suspend=suspend)
        return job.id

    async def remove(self, word: str) -> str:
        """Delete one."""
        job = await find_job(self.api, word)
        await delete_job(self.api, job)
        return job.id


def job_facts(job: Job) -> Facts:
    """Return what a list shows of a job. Pure."""
    return {
        "name": job.id,
        "title": job.name,
        "schedules": job.schedule,
        "profile": job.profile,
        "suspended": not job.enabled,
        "ready": None,
        "next": job.next_run_at,
        "last": job.last_status,
    }


@asynccontextmanager
async def _schedules(options: Options) -> AsyncIterator[Schedules]:
    if not isinstance(choose(options, read_configuration(options.config)), Direct):
        yield ClusterJobs(kubectl_of(options))
        return
    async with connected(options) as connection:
        yield ApiJobs(connection.api)


async def list_them(options: Options, *, as_json: bool) -> ExitCode:
    """List schedules."""
    async with _schedules(options) as schedules:
        jobs = await schedules.all()
    if as_json:
        print_json(jobs)
        return ExitCode.OK
    rows = [tuple(cell(row[column]) for column in _COLUMNS) for row in jobs]
    print_table(_COLUMNS, rows, empty="No schedules. Make one with hermes cron add, or apply one: see docs/cron.md")
    return ExitCode.OK


async def show(options: Options, word: str, *, as_json: bool) -> ExitCode:
    """Show a schedule."""
    async with _schedules(options) as schedules:
        whole, fields = await schedules.one(word)
    if as_json:
        print_json(whole)
    else:
        print_fields(fields)
    return ExitCode.OK


async def run(options: Options, word: str) -> ExitCode:
    """Run a schedule now, once."""
    async with _schedules(options) as schedules:
        name = await schedules.run(word)
    output().print(f"{name} runs now; see hermes cron show {name}", markup=False)
    return ExitCode.OK


async def suspend(options: Options, word: str, *, suspended: bool) -> ExitCode:
    """Pause a schedule, or let it go on."""
    async with _schedules(options) as schedules:
        name = await schedules.suspend(word, suspend=suspended)
    output().print(f"{name} is {'paused' if suspended else 'on'}.", markup=False)
    return ExitCode.OK


async def remove(options: Options, word: str) -> ExitCode:
    """Delete a schedule with the sessions of its runs."""
    async with _schedules(options) as schedules:
        name = await schedules.remove(word)
    output().print(f"{name} is removed.", markup=False)
    return ExitCode.OK


@dataclass(frozen=True)
class NewJob:
    """A job that a person wants."""

    schedule: str
    prompt: str
    name: str
    time_zone: str
    deliver: str
    skills: tuple[str, ...] = ()
    repeat: int | None = None


async def add(options: Options, new: NewJob, *, as_json: bool) -> ExitCode:
    """Make a schedule. Raises CliError where there is only kubectl, which applies manifests."""
    if not isinstance(choose(options, read_configuration(options.config)), Direct):
        raise usage("hermes cron add needs the gateway's address", "set HERMES_URL and a key, or kubectl apply a manifest")
    async with connected(options) as connection:
        fields: dict[str, object] = {
            "name": new.name or " ".join(new.prompt.split())[:60],
            "schedule": new.schedule,
            "prompt": new.prompt,
            "time_zone": new.time_zone,
            "deliver": new.deliver,
            "skills": list(new.skills),
            "repeat": new.repeat,
            "profile": connection.profile,
        }
        job = await make_job(connection.api, fields)
    if as_json:
        print_json(job.model_dump())
    else:
        output().print(f"{job.id} is on: {job.schedule} ({job.time_zone}).", markup=False)
    return ExitCode.OK
