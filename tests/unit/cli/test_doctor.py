"""Each misconfiguration that the documents name is found, and the finding says what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import SecretStr

from hermes_cli.api.client import Probe
from hermes_cli.commands.examining import render
from hermes_cli.connection.choose import Direct, Release
from hermes_cli.connection.contexts import KubernetesPlace
from hermes_cli.doctor import api_checks, cluster_checks
from hermes_cli.doctor.finding import Finding, fail
from hermes_cli.errors import unreachable


def _probe(status: int = 200, body: object = None, *, milliseconds: float = 5, ahead: float | None = 0) -> Probe:
    return Probe(status, json.dumps(body or {"status": "ok"}), milliseconds, ahead)


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message}}


def _direct(url: str) -> Direct:
    return Direct(url, SecretStr("k"), None, None)


def test_a_key_in_the_clear_is_warned_of() -> None:
    states = {
        url: api_checks.check_target(_direct(url)).state
        for url in ("http://127.0.0.1:8642", "http://localhost", "https://far.example", "http://far.example")
    }
    assert list(states.values()) == ["ok", "ok", "ok", "warn"]
    assert api_checks.check_target(Release(KubernetesPlace(), None, None)).state == "ok"


@pytest.mark.parametrize(
    ("finding", "state", "words"),
    [
        (api_checks.check_reach(_probe()), "ok", "5 ms"),
        (api_checks.check_reach(_probe(milliseconds=3000)), "warn", "network"),
        (api_checks.check_reach(_probe(404, "no")), "fail", "no Hermes gateway"),
        (api_checks.check_reach(unreachable("cannot reach x", "check it")), "fail", "check it"),
        (api_checks.check_clock(_probe(ahead=120)), "warn", "120 s ahead"),
        (api_checks.check_version(_probe(body={"info": {"version": "1"}})), "ok", "1"),
        (api_checks.check_version(_probe(body={"info": {"version": "9"}})), "fail", "speaks version 9"),
        (api_checks.check_version(_probe(404)), "fail", "does not describe"),
        (api_checks.check_profile("p", _probe(503, _error("its Secret is missing"))), "fail", "its Secret is missing"),
    ],
)
def test_the_gateway_is_examined(finding: Finding, state: str, words: str) -> None:
    assert finding.state == state
    assert words in f"{finding.message} {finding.todo}"


def test_the_key_is_examined_by_scope() -> None:
    assert [f.state for f in api_checks.check_key(_probe(), _probe())] == ["ok", "ok"]
    assert [f.check for f in api_checks.check_key(_probe(401), _probe(401))] == ["key"]
    chat_only = api_checks.check_key(_probe(), _probe(403))
    assert (chat_only[1].state, chat_only[1].check) == ("warn", "key, scope sessions")


def test_parts_of_the_gateway_say_what_is_away() -> None:
    body = {"status": "degraded", "parts": {"bus": {"ok": True}, "store": {"ok": False, "message": "no answer"}}}
    bus, store = api_checks.check_parts(_probe(body=body))
    assert (bus.state, store.state, store.message) == ("ok", "fail", "no answer")
    assert "database" in store.todo


def _pod(component: str, *, ready: bool = True, waiting: str = "", name: str = "pod") -> dict[str, Any]:
    state = {"waiting": {"reason": waiting, "message": "cannot"}} if waiting else {"running": {}}
    return {
        "metadata": {"name": name, "labels": {"app.kubernetes.io/component": component}},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": str(ready), "message": "" if ready else "containers not ready"}],
            "containerStatuses": [{"state": state}],
        },
    }


def test_pods_are_examined_part_by_part() -> None:
    pods = [
        _pod("operator"),
        _pod("gateway", ready=False, waiting="ImagePullBackOff"),
        _pod("store"),
        _pod("store", ready=False),
        _pod("bus"),
    ]
    found = {f.check: f for f in cluster_checks.check_pods(pods, "hermes", "hermes")}
    assert {name.removeprefix("pods: "): f.state for name, f in found.items()} == {
        "operator": "ok",
        "gateway": "fail",
        "store": "warn",
        "models": "fail",
        "bus": "ok",
        "database": "ok",
    }
    assert "ImagePullBackOff: cannot" in found["pods: gateway"].message
    assert "outside of the release" in found["pods: database"].message
    assert cluster_checks.check_pods([], "hermes", "hermes")[0].state == "fail"


def test_kinds_and_policies_that_are_missing_are_named() -> None:
    every = ["profiles.hermes.run", "hermessessions.hermes.run", "hermescronjobs.hermes.run"]
    assert cluster_checks.check_kinds(every).state == "ok"
    assert "hermessessions" in cluster_checks.check_kinds(["profiles.hermes.run"]).message
    policies = [{"metadata": {"name": f"r-{part}"}} for part in ("gateway", "store", "models")]
    assert "r-operator" in cluster_checks.check_policies(policies, "r").message


def _thing(name: str, *conditions: tuple[str, str, str], state: str = "") -> dict[str, Any]:
    listed = [{"type": kind, "status": status, "reason": reason, "message": ""} for kind, status, reason in conditions]
    return {"metadata": {"name": name}, "status": {"state": state, "conditions": listed}}


def test_profiles_say_why_they_are_not_ready() -> None:
    found = cluster_checks.check_profiles(
        [
            _thing("good", ("Ready", "True", "Ready"), ("NamespaceRestricted", "True", "Restricted")),
            _thing("keyless", ("Ready", "False", "SecretNotFound")),
            _thing("open", ("Ready", "True", "Ready"), ("NamespaceRestricted", "False", "NotRestricted")),
            _thing("unseen"),
        ]
    )
    assert [f.state for f in found] == ["ok", "fail", "warn", "fail"]
    assert "SecretNotFound" in found[1].message
    assert "enforce=restricted" in found[2].todo
    assert cluster_checks.check_profiles([])[0].state == "fail"


def test_sessions_in_trouble_are_named_and_sleeping_ones_are_not() -> None:
    asleep = _thing("asleep", ("Ready", "False", "Asleep"), state="Asleep")
    stuck = _thing("stuck", ("Ready", "False", "ImagePullBackOff"), state="Failed")
    undelivered = _thing("mute", ("DeliveryFailed", "True", "Refused"), state="Asleep")
    found = cluster_checks.check_sessions([asleep, stuck, undelivered])
    assert [f.check for f in found] == ["session stuck", "session mute"]
    assert cluster_checks.check_sessions([asleep])[0].state == "ok"
    many = cluster_checks.check_sessions([_thing(f"s{n}", ("DeadLetter", "True", "GivenUp")) for n in range(30)])
    assert (len(many), many[-1].message) == (11, "20 more are in trouble")


def test_a_finding_is_two_lines_with_what_to_do() -> None:
    shown = render(fail("key", "wrong\x1b[2J", "set it")).plain
    assert shown == "FAIL key: wrong[2J\n     → set it"
