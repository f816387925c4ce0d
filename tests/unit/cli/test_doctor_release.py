"""What a release needs around it is looked at, and the gateway's own findings are passed on."""

from __future__ import annotations

import json
from typing import Any

from hermes_cli.api.client import Probe
from hermes_cli.doctor import binding_checks, release_checks
from hermes_cli.errors import unreachable


def test_volumes_that_nobody_provides_are_named() -> None:
    claims = [
        {"metadata": {"name": "data-nats-0"}, "status": {"phase": "Bound"}},
        {"metadata": {"name": "data-postgres-0"}, "spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"}},
        {"metadata": {"name": "other"}, "status": {"phase": "Pending"}},
    ]
    found = release_checks.check_claims(claims)
    assert [(f.check, f.state) for f in found] == [("volume data-postgres-0", "fail"), ("volume other", "fail")]
    assert "'fast'" in found[0].message and "the default StorageClass" in found[1].message
    assert "kubectl get storageclass" in found[0].todo


def test_a_secret_that_pods_wait_for_is_named_once_and_not_when_they_run() -> None:
    def pod(name: str, ready: str) -> dict[str, Any]:
        status = {"phase": "Pending", "conditions": [{"type": "Ready", "status": ready}]}
        return {"metadata": {"name": name}, "status": status}

    def event(name: str) -> dict[str, Any]:
        return {"involvedObject": {"name": name}, "message": 'MountVolume.SetUp failed: secret "hermes-slack" not found'}

    events = [event("gateway-1"), event("gateway-2")]
    found = release_checks.check_mounts([pod("gateway-1", "False"), pod("gateway-2", "False")], events)
    assert [(f.check, f.state) for f in found] == [("secret hermes-slack", "fail")]
    assert release_checks.check_mounts([pod("gateway-1", "True")], events) == []


def _gateway(*volumes: str) -> list[dict[str, Any]]:
    return [{"spec": {"template": {"spec": {"volumes": [{"name": name} for name in ("tmp", "bus", *volumes)]}}}}]


def test_what_platforms_cannot_reach_is_said() -> None:
    (found,) = release_checks.check_way_in(_gateway("slack", "webhooks"), [])
    assert found.state == "warn" and "/slack, /webhooks" in found.message and "Socket Mode" in found.todo
    assert release_checks.check_way_in(_gateway("telegram"), []) == []
    assert release_checks.check_way_in(_gateway("slack"), [{}])[0].state == "ok"


def test_schedules_in_trouble_are_named() -> None:
    def job(name: str, *conditions: tuple[str, str], delivery: str = "Delivered") -> dict[str, Any]:
        listed = [
            {"type": kind, "status": status, "reason": "Why", "message": "spec.toolsets"} for kind, status in conditions
        ]
        return {"metadata": {"name": name}, "status": {"conditions": listed, "lastRun": {"delivery": delivery}}}

    jobs = [job("good", ("Ready", "True")), job("bad", ("Ready", "False")), job("late", ("Clock", "False"))]
    found = release_checks.check_cron_jobs([*jobs, job("mute", delivery="Failed")])
    assert [(f.check, f.state) for f in found] == [("cron bad", "fail"), ("cron late", "fail"), ("cron mute", "warn")]
    assert "spec.toolsets" in found[0].message and "bound to the job's namespace" in found[2].todo
    assert release_checks.check_cron_jobs(jobs[:1])[0].state == "ok"
    assert release_checks.check_cron_jobs([]) == []


def test_what_the_gateway_complains_of_in_its_log_is_explained() -> None:
    lines = [
        {"event": "gateway.started"},
        {"event": "telegram.not_listening", "account": "bot", "error": "Conflict"},
        {"event": "telegram.not_listening", "account": "mended", "error": "Conflict"},
        {"event": "telegram.fetches", "account": "mended"},
        {"event": "Failed to retrieve WSS URL: invalid_auth"},
        {"event": "access.unreadable", "problem": "slack.json: accounts.0.pairing: nobody could approve a code"},
        *({"event": "people.denied", "channel": "slack", "account": "acme", "user": f"U{n}"} for n in range(7)),
    ]
    found = release_checks.check_log("\n".join(["no json", *map(json.dumps, lines)]))
    assert [(f.check, f.state) for f in found] == [
        ("telegram account bot", "fail"),
        ("telegram account mended", "warn"),
        ("slack: Socket Mode", "fail"),
        ("access files", "fail"),
        ("people turned away", "warn"),
    ]
    assert "nobody could approve a code" in found[3].message
    assert "slack acme U4 and 2 more" in found[4].message
    assert release_checks.check_log("")[0].state == "ok"


def test_the_gateways_findings_are_passed_on() -> None:
    data = [{"check": "slack account acme", "state": "fail", "message": "Slack refuses bot_token", "todo": "put it right"}]
    (found,) = binding_checks.check_bindings(Probe(200, json.dumps({"data": data}), 1.0, None))
    assert (found.check, found.state, found.todo) == ("slack account acme", "fail", "put it right")
    for probe in (Probe(404, "{}", 1.0, None), Probe(500, "no", 1.0, None), unreachable("away", "wait")):
        assert binding_checks.check_bindings(probe)[0].state == "skip"
    assert binding_checks.check_bindings(Probe(200, '{"data": []}', 1.0, None))[0].state == "ok"
