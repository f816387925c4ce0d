"""Somebody keeps jobs over HTTP; what the operator is asked is theirs alone, and what it refuses they read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hermes_contracts import subjects
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.jobs import JOB_METHODS, CreateJob, Deleted, JobName, JobOwner, Jobs, JobView, RunJob, UpdateJob
from hermes_service.rpc import RpcServer
from tests.integration.gateway.world import ALICE, BOB, World

NEWS = {"name": "News", "schedule": "daily at 9am", "prompt": "Tell me the news."}
BLANK = {"created_at": "", "next_run": "", "last_run": "", "last_outcome": "", "last_delivery": "", "managed_by": ""}
AS_ALICE = {"Authorization": f"Bearer {ALICE}"}


@dataclass
class Operator:
    """Stands in for the operator, which is tested with a real API server."""

    jobs: dict[str, JobView] = field(default_factory=dict)
    asked: list[JobOwner] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)

    async def list(self, _: Any, request: Any) -> Jobs:
        self.asked.append(request.by)
        return Jobs(jobs=tuple(self.jobs.values()))

    async def create(self, _: Any, request: CreateJob) -> JobView:
        self.asked.append(request.by)
        if request.schedule == "every 1m":
            raise HermesError(ErrorCode.INVALID, "schedule: runs are at least 5 minutes apart")
        shared = request.model_dump(include={"title", "profile", "time_zone", "prompt", "repeat", "deliver"})
        made = JobView.model_validate(
            {**BLANK, **shared, "id": "news-1", "schedules": (request.schedule,)}
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

    async def serve(self, world: World) -> None:
        handlers: Any = {method.name: getattr(self, method.name) for method in JOB_METHODS}
        server = RpcServer(world.admin, handlers, methods=JOB_METHODS, subjects=(subjects.jobs("gateway", "*"),))
        await server.start("jobs")
        await world.admin.flush()


async def test_a_job_over_http(world: World) -> None:
    operator = Operator()
    await operator.serve(world)
    async with world.http() as http:
        made = await http.post("/api/jobs", json={**NEWS, "deliver": "webhook:alerts"}, headers=AS_ALICE)
        assert made.status_code == 200, made.text
        job = made.json()["job"]
        assert (job["name"], job["profile"], job["deliver"], job["state"]) == (
            "News",
            "helper",
            "webhook:alerts",
            "scheduled",
        )
        assert operator.asked[-1] == JobOwner(namespace="team", owner="alice", profiles=("helper", "sleepy", "missing"))
        place = f"/api/jobs/{job['id']}"
        assert (await http.get(place)).json()["job"] == job
        assert (await http.patch(place, json={"prompt": "Less."})).json()["job"]["prompt"] == "Less."
        assert (await http.post(f"{place}/pause")).json()["job"]["state"] == "paused"
        assert (await http.get("/api/jobs")).json() == {"jobs": []}
        assert len((await http.get("/api/jobs?include_disabled=true")).json()["jobs"]) == 1
        assert (await http.post(f"{place}/resume")).json()["job"]["enabled"] is True
        for key in ("once", "once", "again"):
            await http.post(f"{place}/run", headers={"Idempotency-Key": key})
        assert operator.tokens[0] == operator.tokens[1] != operator.tokens[2]
        assert (await http.delete(place)).json() == {"ok": True}
        assert (await http.delete(place)).status_code == (await http.get(place)).status_code == 404


async def test_what_is_wrong_is_said_and_who_may_not_is_refused(world: World) -> None:
    operator = Operator()
    await operator.serve(world)
    async with world.http() as http:
        for change, said in (
            ({"schedule": "every 1m"}, "5 minutes apart"),
            ({"deliver": "telegram"}, "deliver: use `local`"),
            ({"prompt": " "}, "prompt"),
            ({"skills": ["x"]}, "skills"),
        ):
            answer = await http.post("/api/jobs", json={**NEWS, **change})
            assert (answer.status_code, said in answer.json()["error"]["message"]) == (400, True), answer.text
        assert (await http.post("/api/jobs", json={**NEWS, "profile": "private"})).status_code == 403
        assert (await http.get("/api/jobs/Not_A-Name")).status_code == 404
        refused = await http.get("/api/jobs", headers={"Authorization": f"Bearer {BOB}"})
        assert (refused.status_code, "jobs" in refused.json()["error"]["message"]) == (403, True)
    assert operator.jobs == {}
