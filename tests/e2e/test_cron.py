"""A job in a manifest runs: asked for at once, and by the clock; what it said is there, and silence is silent."""

from __future__ import annotations

from typing import Any

from hermes_contracts.names import ANNOTATION_RUN_NOW, API_VERSION, LABEL_JOB_OWNER, job_owner_label
from release.kubectl import Object, apply, get, get_all, kubectl, until
from tests.e2e.framework.installation import Script, namespace_of, profile
from tests.e2e.framework.person import Person
from tests.e2e.framework.sessions import events_of

STORY = "cron"
NAMESPACE = namespace_of(STORY)


def job(name: str, *, run_now: str = "", **spec: Any) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": "HermesCronJob",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "annotations": {ANNOTATION_RUN_NOW: run_now} if run_now else {},
        },
        "spec": {"profileRef": {"name": "default"}, "schedules": ["0 0 1 1 *"], **spec},
    }


async def ended(name: str, *, count: int = 1) -> Object:
    """Wait until a job's runs have ended, and return its status."""

    async def look() -> Object | None:
        status = ((await get("hermescronjob", name, NAMESPACE)) or {}).get("status") or {}
        over = status.get("succeeded", 0) + status.get("failed", 0) >= count and not status.get("active")
        return status if over else None

    return dict(await until(f"the runs of {name} to end", look, deadline_seconds=180))


async def test_a_run_at_once_has_the_agent_work_and_the_next_job_reads_its_answer() -> None:
    await kubectl("delete", "hermescronjob", "--all", "-n", NAMESPACE)
    await apply(job("weather", run_now="1", prompt='#script {"say": "It will rain."}'))
    status = await ended("weather")
    assert status["lastRun"]["outcome"] == "Succeeded"
    assert status["lastRun"]["delivery"] == "None"
    assert {"RunStarted", "RunEnded"} <= set(await events_of(NAMESPACE, "weather"))
    text = '#script {"say": "Take an umbrella."}'
    await apply(job("advice", run_now="1", prompt=text, contextFrom=["weather"], toolsets=[]))
    assert (await ended("advice"))["succeeded"] == 1
    listed = await kubectl("get", "hcj", "-n", NAMESPACE)
    assert "Succeeded" in listed


async def test_the_clock_starts_a_script_and_its_gate_keeps_it_silent() -> None:
    await apply(job("watch", schedules=["* * * * *"], prompt="look", script="echo fine; echo '{\"wakeAgent\": false}'"))
    status = await ended("watch")
    assert (status["lastRun"]["outcome"], status["lastRun"]["reason"]) == ("Silent", "not_woken")
    assert status["started"] >= 1
    await kubectl("delete", "hermescronjob", "watch", "-n", NAMESPACE)

    async def gone() -> bool:
        sessions = await get_all("hermessessions", NAMESPACE)
        return not [s for s in sessions if s["metadata"]["name"].startswith("watch-")]

    await until("the runs to go with their job", gone)


async def test_a_failing_script_without_an_agent_is_a_failed_run() -> None:
    await apply(job("broken", run_now="1", noAgent=True, script="echo no disk; exit 3"))
    status = await ended("broken")
    assert (status["lastRun"]["outcome"], status["lastRun"]["reason"]) == ("Failed", "script_failed")


async def test_an_agent_keeps_a_job_for_the_person_it_talks_to() -> None:
    await apply(profile(STORY, toolsets=["terminal", "file", "cronjob"]))
    made = {"action": "create", "schedule": "0 0 1 1 *", "prompt": "Wish a happy new year.", "name": "New Year"}
    steps = (
        {"calls": [{"name": "cronjob_manage", "arguments": made}]},
        {"calls": [{"name": "cronjob_manage", "arguments": {"action": "run", "job_id": "new year"}}]},
        {"say": "It is kept, and runs now."},
    )

    async def observed() -> bool:
        body = await get("profile", "default", NAMESPACE) or {}
        return bool(body.get("status", {}).get("observedGeneration") == body.get("metadata", {}).get("generation"))

    await until("the operator to know the toolset", observed)
    async with Person(STORY) as ann:
        assert await ann.say("schedules", Script(steps).text()) == "It is kept, and runs now."
    [mine] = await get_all("hermescronjobs", NAMESPACE, f"{LABEL_JOB_OWNER}={job_owner_label(f'ann@{STORY}')}")
    assert mine["spec"]["prompt"] == "Wish a happy new year."
    status = await ended(mine["metadata"]["name"])
    assert status["lastRun"]["outcome"] == "Succeeded"
    await kubectl("delete", "hermescronjob", mine["metadata"]["name"], "-n", NAMESPACE)
