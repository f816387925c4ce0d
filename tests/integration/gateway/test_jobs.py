"""Somebody keeps jobs over HTTP; what the operator is asked is theirs alone, and what it refuses they read."""

from __future__ import annotations

from hermes_contracts.jobs import JobOwner
from tests.integration.gateway.jobs_desk import Operator
from tests.integration.gateway.world import ALICE, BOB, World

NEWS = {"name": "News", "schedule": "daily at 9am", "prompt": "Tell me the news."}
AS_ALICE = {"Authorization": f"Bearer {ALICE}"}


async def test_a_job_over_http(world: World) -> None:
    operator = Operator()
    await operator.serve(world.admin)
    async with world.http() as http:
        made = await http.post(
            "/api/jobs", json={**NEWS, "deliver": "webhook:alerts, home", "skills": ["tone"]}, headers=AS_ALICE
        )
        assert made.status_code == 200, made.text
        job = made.json()["job"]
        assert (job["name"], job["profile"], job["deliver"], job["state"]) == (
            "News",
            "helper",
            "webhook:alerts, home",
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
    await operator.serve(world.admin)
    async with world.http() as http:
        for change, said in (
            ({"schedule": "every 1m"}, "5 minutes apart"),
            ({"deliver": "mars"}, "none of local"),
            ({"prompt": " "}, "prompt"),
            ({"skills": ["../x"]}, "skills"),
            ({"wings": 2}, "wings"),
        ):
            answer = await http.post("/api/jobs", json={**NEWS, **change})
            assert (answer.status_code, said in answer.json()["error"]["message"]) == (400, True), answer.text
        assert (await http.post("/api/jobs", json={**NEWS, "profile": "private"})).status_code == 403
        assert (await http.get("/api/jobs/Not_A-Name")).status_code == 404
        refused = await http.get("/api/jobs", headers={"Authorization": f"Bearer {BOB}"})
        assert (refused.status_code, "jobs" in refused.json()["error"]["message"]) == (403, True)
    assert operator.jobs == {}
