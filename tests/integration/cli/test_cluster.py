"""With a kubeconfig and nothing else: the client finds the release through kubectl. A stand-in plays kubectl."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="session")

JOB = {
    "metadata": {"name": "nightly"},
    "spec": {"schedules": ["every 30m"], "profileRef": {"name": "default"}, "prompt": "Look.", "suspend": True},
    "status": {"nextRun": None, "conditions": [{"type": "Ready", "status": "True", "reason": "Ready"}]},
}
KUBECTL = """#!/bin/sh
echo "$*" >> {folder}/calls
case "$*" in
  *"get secret hermes-first-api-key"*) cat {folder}/secret.json ;;
  *port-forward*) echo $$ > {folder}/pid; echo "Forwarding from 127.0.0.1:{port} -> 8642"; exec sleep 600 ;;
  *"get hermescronjobs.hermes.run nightly"*) cat {folder}/job.json ;;
  *"get hermescronjobs.hermes.run -o json"*) cat {folder}/jobs.json ;;
  *annotate*|*patch*) ;;
  *"get pods -l hermes.run/sid="*) echo '{{"items": []}}' ;;
  *"--ignore-not-found"*) ;;
  *) echo 'Error from server (Forbidden): forbidden' >&2; exit 1 ;;
esac
"""


@pytest.fixture
def cluster(hermes: Any, tmp_path: Path) -> dict[str, str]:
    """Return the environment of somebody who has kubectl, and neither an address nor a key."""
    program = tmp_path / "kubectl"
    program.write_text(KUBECTL.format(folder=tmp_path, port=hermes.stack.ports["api"]))
    program.chmod(0o755)
    secret = {"data": {"api-key": base64.b64encode(hermes.stack.api_key.encode()).decode()}}
    (tmp_path / "secret.json").write_text(json.dumps(secret))
    (tmp_path / "job.json").write_text(json.dumps(JOB))
    (tmp_path / "jobs.json").write_text(json.dumps({"items": [JOB]}))
    return {"HERMES_URL": "", "HERMES_API_KEY": "", "PATH": f"{tmp_path}:/usr/bin:/bin"}


async def test_it_forwards_a_port_reads_the_first_key_and_leaves_nothing_behind(
    hermes: Any, cluster: dict[str, str], tmp_path: Path, script: Any
) -> None:
    done = await hermes.run("send", script({"say": "through the cluster"}), env=cluster)
    assert (done.code, done.out) == (0, "through the cluster\n"), done.err
    calls = (tmp_path / "calls").read_text()
    assert "-n hermes port-forward svc/hermes-gateway :8642 --address 127.0.0.1" in calls
    assert hermes.stack.api_key not in calls, "the key is on no command line"
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists(), "kubectl has ended with us"


async def test_another_release_that_is_not_there_is_named(hermes: Any, cluster: dict[str, str]) -> None:
    done = await hermes.run("--release", "two", "--namespace", "team", "sessions", "list", env=cluster)
    assert done.code == 4
    assert "no Secret two-first-api-key in namespace team" in done.err


async def test_schedules_are_listed_run_and_paused(hermes: Any, cluster: dict[str, str], tmp_path: Path) -> None:
    listed = (await hermes.run("cron", "list", "--json", env=cluster)).json()
    assert [(job["name"], job["schedules"], job["suspended"], job["next"]) for job in listed] == [
        ("nightly", "every 30m", True, None)
    ]
    assert "Look." in (await hermes.run("cron", "show", "nightly", env=cluster)).out
    for command in ("run", "pause", "resume"):
        assert (await hermes.run("cron", command, "nightly", env=cluster)).code == 0
    calls = (tmp_path / "calls").read_text()
    assert "annotate hermescronjobs.hermes.run nightly hermes.run/run-now=" in calls
    assert '{"spec": {"suspend": true}}' in calls
    assert '{"spec": {"suspend": false}}' in calls
    missing = await hermes.run("cron", "run", "weekly", env=cluster)
    assert (missing.code, "no hermescronjobs 'weekly'" in missing.err) == (4, True)


async def test_a_sleeping_session_has_no_logs_and_it_is_said(hermes: Any, cluster: dict[str, str], script: Any) -> None:
    await hermes.run("send", "-s", "logged", script({"say": "ok"}), env=cluster)
    done = await hermes.run("logs", "logged", env=cluster)
    assert (done.code, "it is asleep" in done.err) == (4, True), done.err


async def test_the_doctor_skips_what_it_may_not_see(hermes: Any, cluster: dict[str, str]) -> None:
    found = {f["check"]: f for f in (await hermes.run("doctor", "--json", env=cluster)).json()}
    assert found["cluster"]["state"] == "skip"
    assert found["reachable"]["state"] == "ok"


TROUBLED = """#!/bin/sh
case "$*" in
  *"get secret hermes-first-api-key"*) cat {folder}/secret.json ;;
  *port-forward*) echo "Forwarding from 127.0.0.1:{port} -> 8642"; exec sleep 600 ;;
  *api-resources*) printf 'profiles.hermes.run\nhermessessions.hermes.run\nhermescronjobs.hermes.run\n' ;;
  *"get pods"*) cat {folder}/pods.json ;;
  *"get events"*) cat {folder}/events.json ;;
  *"get persistentvolumeclaims"*) cat {folder}/claims.json ;;
  *"get deployments"*) cat {folder}/deployments.json ;;
  *"get hermescronjobs"*) cat {folder}/jobs.json ;;
  *logs*component=gateway*) cat {folder}/log ;;
  *"get httproutes"*) echo "error: the server doesn't have a resource type" >&2; exit 1 ;;
  *) echo '{{"items": []}}' ;;
esac
"""


async def test_the_doctor_names_what_keeps_a_release_from_working(
    hermes: Any, cluster: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "kubectl").write_text(TROUBLED.format(folder=tmp_path, port=hermes.stack.ports["api"]))
    labels = {"app.kubernetes.io/component": "gateway"}
    pod = {"metadata": {"name": "gateway-1", "labels": labels}, "status": {"phase": "Pending", "conditions": []}}
    missing = {
        "involvedObject": {"name": "gateway-1"},
        "message": 'references non-existent: secret "hermes-slack" not found',
    }
    broken = {**JOB, "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "ToolsetMissing"}]}}
    mounts = {"spec": {"template": {"spec": {"volumes": [{"name": "slack"}]}}}}
    for name, items in (
        ("pods", [pod]),
        ("events", [missing]),
        ("claims", [{"metadata": {"name": "data-nats-0"}, "status": {"phase": "Pending"}}]),
        ("deployments", [mounts]),
        ("jobs", [broken]),
    ):
        (tmp_path / f"{name}.json").write_text(json.dumps({"items": items}))
    (tmp_path / "log").write_text(json.dumps({"event": "telegram.not_listening", "account": "bot", "error": "Conflict"}))
    done = await hermes.run("doctor", "--json", env=cluster)
    found = {f["check"]: f for f in done.json()}
    assert done.code == 1
    states = {check: found[check]["state"] for check in found}
    wanted = ("secret hermes-slack", "volume data-nats-0", "cron nightly", "telegram account bot", "pods: gateway")
    assert {check: states.get(check) for check in wanted} == dict.fromkeys(wanted, "fail")
    assert (states["way in"], states["reachable"], states["accounts"]) == ("warn", "ok", "ok")
    assert all(f["todo"] for f in found.values() if f["state"] in ("warn", "fail"))
