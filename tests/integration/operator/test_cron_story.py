"""A job's life on a real API server and bus: due, started once, ended, counted, cleaned up."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from nats.js import JetStreamContext
from nats.js.api import RawStreamMsg
from nats.js.errors import NotFoundError

from hermes_contracts import subjects
from hermes_contracts.envelopes import HEADER_MESSAGE_ID, HEADER_ROUTE, HEADER_SIGNATURE, Inbound
from hermes_contracts.names import ANNOTATION_RUN_NOW, API_VERSION
from hermes_contracts.store_api import CronTurn, TurnState
from hermes_operator.cluster.resources import CRON_JOBS, EVENTS, SESSIONS
from hermes_service.signing import Verifier, public_key
from tests.integration.operator.admin import until
from tests.integration.operator.harness import Installation
from tests.integration.operator.stories import make_session

pytestmark = pytest.mark.timeout(300)


def job(installation: Installation, name: str = "report", *, run_now: str = "", **spec: Any) -> dict[str, Any]:
    annotations = {ANNOTATION_RUN_NOW: run_now} if run_now else {}
    blank = {"schedules": ["0 0 1 1 *"], "prompt": "Write the report.", "profileRef": {"name": "default"}}
    return {
        "apiVersion": API_VERSION,
        "kind": "HermesCronJob",
        "metadata": {"name": name, "namespace": installation.namespace, "annotations": annotations},
        "spec": {**blank, **spec},
    }


async def status(installation: Installation, name: str = "report") -> dict[str, Any]:
    body = await installation.admin.get(CRON_JOBS, installation.namespace, name)
    return (body or {}).get("status") or {}


async def runs(installation: Installation) -> list[dict[str, Any]]:
    found = await installation.admin.list(SESSIONS, installation.namespace, labels="hermes.run/cron")
    return sorted(found, key=lambda body: str(body["spec"]["key"]["chat"]))


def settle(installation: Installation, body: dict[str, Any], state: TurnState = TurnState.DONE, **fields: Any) -> None:
    """Have the store say that a run's turn ended."""
    run = body["spec"]["key"]["chat"]
    sid = body["metadata"]["labels"]["hermes.run/sid"]
    turn = CronTurn(sid=sid, run=run, state=state, reason="stop", opened_at=time.time())
    installation.store.cron_turns[run] = turn.model_copy(update=fields)


def ready(body: dict[str, Any]) -> dict[str, Any]:
    return next((c for c in body.get("conditions", []) if c["type"] == "Ready"), {})


async def message_of(installation: Installation, sid: str) -> Inbound:
    """Return what waits on the bus for a session, after checking that an agent would believe it."""
    js = (await bus_of(installation)).jetstream()
    found = await until(lambda: _waiting(js, sid), "a run's message is on the bus, after its session")
    headers, verifier = found.headers or {}, Verifier(public_key(await installation.signing_seed()))
    data = found.data or b""
    assert verifier.verify(
        headers[HEADER_SIGNATURE], subjects.inbound(sid), headers[HEADER_MESSAGE_ID], headers[HEADER_ROUTE], data
    )
    return Inbound.model_validate_json(data)


async def _waiting(js: JetStreamContext, sid: str) -> RawStreamMsg | None:
    try:
        return await js.get_msg(subjects.in_stream(sid), subject=subjects.inbound(sid), next=True, seq=1)
    except NotFoundError:
        return None


async def bus_of(installation: Installation) -> Any:
    from hermes_contracts.bus_permissions import Role

    return await installation.client(Role.OPERATOR)


async def test_a_run_asked_for_by_annotation_starts_once_ends_and_is_cleaned_up(installation: Installation) -> None:
    await installation.up()
    target = {"channel": "webhook", "account": "reports"}
    await installation.admin.apply(CRON_JOBS, job(installation, run_now="a", deliver=[target], successfulRunsHistoryLimit=1))
    [made] = await until(lambda: runs(installation), "the run's session is there")
    assert made["metadata"]["ownerReferences"][0]["kind"] == "HermesCronJob"
    sid = made["metadata"]["labels"]["hermes.run/sid"]
    message = await message_of(installation, sid)
    assert message.run is not None
    assert message.text == "Write the report."
    assert [(t.account, t.chat) for t in message.run.deliver] == [("reports", "report")]
    found = await until(lambda: _has(installation, lastRun=True), "the status names the run")
    assert found["lastRun"]["outcome"] == "Waiting"
    assert ready(found)["status"] == "True"
    assert found["nextRun"].endswith("-01-01T00:00:00Z")

    settle(installation, made, parts=1, delivered=1)
    found = await until(lambda: _outcome(installation, "Succeeded"), "the run has ended", 60)
    assert (found["succeeded"], found["active"], found["lastRun"]["delivery"]) == (1, 0, "Delivered")

    await installation.admin.apply(CRON_JOBS, job(installation, run_now="b", deliver=[target], successfulRunsHistoryLimit=1))
    both = await until(lambda: _runs(installation, 2), "a new value starts a second run")
    settle(installation, next(body for body in both if body["metadata"]["uid"] != made["metadata"]["uid"]))
    [left] = await until(lambda: _runs(installation, 1), "the older run is beyond the history limit", 60)
    assert left["metadata"]["uid"] != made["metadata"]["uid"]
    reasons = {event["reason"] for event in await installation.admin.list(EVENTS, installation.namespace)}
    assert {"RunStarted", "RunEnded"} <= reasons

    await installation.admin.delete(CRON_JOBS, installation.namespace, "report")
    await until(lambda: _runs(installation, 0), "the runs go with their job", 60)


async def test_a_due_minute_starts_one_run_with_two_operators_and_a_restart_at_the_due_second(
    installation: Installation,
) -> None:
    await installation.up()
    installation.operator("two")
    due = (datetime.now(UTC) + timedelta(seconds=75)).replace(second=0, microsecond=0)
    await installation.admin.apply(CRON_JOBS, job(installation, schedules=[due.strftime("%Y-%m-%dT%H:%MZ")]))
    await until(lambda: _has(installation, nextRun=due.strftime("%Y-%m-%dT%H:%M:%SZ")), "the next run is known")
    await until(lambda: time.time() >= due.timestamp(), "the minute comes", 80)
    installation.processes[0].kill()
    made = await until(lambda: _runs(installation, 1), "the run starts, whoever leads", 60)
    assert made[0]["spec"]["key"]["chat"] == due.strftime("%Y-%m-%dT%H:%M:%SZ")
    found = await until(lambda: _has(installation, started=1), "and is counted", 60)
    assert "nextRun" not in found
    assert ready(found)["reason"] == "Finished"
    settle(installation, made[0])
    await until(lambda: _outcome(installation, "Succeeded"), "it ends", 60)
    assert len(await runs(installation)) == 1


async def test_what_cannot_work_is_refused_at_apply_or_said_in_a_condition(installation: Installation) -> None:
    await installation.up()
    refuse = installation.admin.refusal
    assert "there is nothing to do" in await refuse(CRON_JOBS, job(installation, prompt=""))
    assert "noAgent needs a script" in await refuse(CRON_JOBS, job(installation, prompt="", noAgent=True))
    assert "maxMissedRuns belongs" in await refuse(CRON_JOBS, job(installation, maxMissedRuns=3))
    assert "would stop people's turns" in await refuse(
        CRON_JOBS, job(installation, sessionRef={"name": "chat"}, concurrencyPolicy="Replace")
    )
    for target, said in (
        ({"channel": "pigeon", "account": "coop"}, "the channels are webhook, slack, telegram, home"),
        ({"channel": "slack", "account": "T1.A1"}, "name the chat on slack and telegram"),
    ):
        assert said in await refuse(CRON_JOBS, job(installation, deliver=[target]))
    wrong: dict[str, dict[str, Any]] = {
        "ScheduleUnreadable": {"schedules": ["when it rains"]},
        "ProfileMissing": {"profileRef": {"name": "nobody"}},
        "SessionMissing": {"sessionRef": {"name": "chat"}},
        "JobMissing": {"contextFrom": ["weather"]},
    }
    for number, (reason, spec) in enumerate(wrong.items()):
        await installation.admin.apply(CRON_JOBS, job(installation, f"wrong-{number}", run_now="x", **spec))
        await until(lambda n=number, r=reason: _says(installation, f"wrong-{n}", r), f"{reason} is said")
    assert await runs(installation) == []


async def _says(installation: Installation, name: str, reason: str) -> bool:
    return bool(ready(await status(installation, name)).get("reason") == reason)


async def _has(installation: Installation, **fields: Any) -> dict[str, Any] | None:
    found = await status(installation)
    same = all(name in found and (value is True or found[name] == value) for name, value in fields.items())
    return found if same else None


async def _outcome(installation: Installation, outcome: str) -> dict[str, Any] | None:
    found = await status(installation)
    return found if found.get("lastRun", {}).get("outcome") == outcome else None


async def _runs(installation: Installation, count: int) -> list[dict[str, Any]] | bool:
    found = await runs(installation)
    return (found or True) if len(found) == count else False


async def test_replace_stops_the_old_run_and_starts_the_new_one_when_it_has_ended(installation: Installation) -> None:
    await installation.up()
    spec = {"concurrencyPolicy": "Replace"}
    await installation.admin.apply(CRON_JOBS, job(installation, run_now="a", **spec))
    [old] = await until(lambda: _runs(installation, 1), "the first run is there")
    await installation.admin.apply(CRON_JOBS, job(installation, run_now="b", **spec))
    await until(lambda: bool(installation.store.commands), "the old run is told to stop")
    command = installation.store.commands[0]
    assert (command.sid, command.kind) == (old["metadata"]["labels"]["hermes.run/sid"], "stop")
    settle(installation, old, TurnState.FAILED, reason="stopped_by_user")
    both = await until(lambda: _runs(installation, 2), "the new run starts when the old one has ended", 60)
    new = next(body for body in both if body["metadata"]["uid"] != old["metadata"]["uid"])
    assert (await message_of(installation, new["metadata"]["labels"]["hermes.run/sid"])).run is not None


async def test_a_run_continues_the_conversation_of_a_session(installation: Installation) -> None:
    await installation.up()
    sid = await make_session(installation, "chat", owner="ann")
    await installation.admin.apply(CRON_JOBS, job(installation, run_now="a", sessionRef={"name": "chat"}))
    found = await until(lambda: _has(installation, lastRun=True), "the run is told")
    assert found["lastRun"]["session"] == "chat"
    message = await message_of(installation, sid)
    assert message.run is not None
    assert (message.owner, message.channel, message.run.channel) == ("ann", "cron", "object")
    assert await runs(installation) == []
    turn = CronTurn(sid=sid, run=message.update_id, state=TurnState.DONE, reason="stop", opened_at=time.time())
    installation.store.cron_turns[message.update_id] = turn
    await until(lambda: _outcome(installation, "Succeeded"), "it ends", 60)
