"""Stands in for the operator's desk of jobs, which is tested with a real API server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nats.aio.client import Client

from hermes_contracts import subjects
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.jobs import JOB_METHODS, CreateJob, Deleted, JobName, JobOwner, Jobs, JobView, RunJob, UpdateJob
from hermes_service.rpc import RpcServer

_OF_THE_GATEWAY = subjects.jobs("gateway", "*")
BLANK = {"created_at": "", "next_run": "", "last_run": "", "last_outcome": "", "last_delivery": "", "managed_by": ""}


@dataclass
class Operator:
    """Answers on the bus, by the rules that callers must see."""

    jobs: dict[str, JobView] = field(default_factory=dict)
    asked: list[JobOwner | None] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)

    async def list(self, _: Any, request: Any) -> Jobs:
        self.asked.append(request.by)
        return Jobs(jobs=tuple(self.jobs.values()))

    async def create(self, _: Any, request: CreateJob) -> JobView:
        self.asked.append(request.by)
        if request.schedule == "every 1m":
            raise HermesError(ErrorCode.INVALID, "schedule: runs are at least 5 minutes apart")
        shared = request.model_dump(include={"title", "profile", "time_zone", "prompt", "skills", "repeat", "deliver"})
        made = JobView.model_validate(
            {**BLANK, **shared, "id": "news-1", "profile": request.profile or "helper", "schedules": (request.schedule,)}
            | {"suspended": False, "succeeded": 0, "failed": 0}
        )
        self.jobs[made.id] = made
        return made

    async def get(self, _: Any, request: JobName) -> JobView:
        if request.id not in self.jobs:
            raise HermesError(ErrorCode.NOT_FOUND, f"you have no job {request.id}")
        return self.jobs[request.id]

    async def update(self, _: Any, request: UpdateJob) -> JobView:
        changes = request.model_dump(include={"prompt", "repeat"}, exclude_none=True)
        if request.suspend is not None:
            changes["suspended"] = request.suspend
        self.jobs[request.id] = self.jobs[request.id].model_copy(update=changes)
        return self.jobs[request.id]

    async def delete(self, _: Any, request: JobName) -> Deleted:
        return Deleted(existed=self.jobs.pop(request.id, None) is not None)

    async def run(self, _: Any, request: RunJob) -> JobView:
        self.tokens.append(request.token)
        return self.jobs[request.id]

    async def serve(self, bus: Client, subject: str = _OF_THE_GATEWAY) -> None:
        handlers: Any = {method.name: getattr(self, method.name) for method in JOB_METHODS}
        await RpcServer(bus, handlers, methods=JOB_METHODS, subjects=(subject,)).start("jobs")
        await bus.flush()
