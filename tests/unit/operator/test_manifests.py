"""The objects that the operator makes: the pod against a golden file, policies and roles by their rules."""

from __future__ import annotations

import base64
import ipaddress
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes_contracts.agent_config import AgentConfig, CodexConfig, CompressionConfig
from hermes_contracts.crd.profile import ProfileSpec
from hermes_operator.build.claim import build_claim
from hermes_operator.build.facts import Epoch, HostAddress, Installation
from hermes_operator.build.money import nano_usd, usd
from hermes_operator.build.network_policy import build_policy
from hermes_operator.build.pod import build_pod, isolation, pod_template
from hermes_operator.build.quantity import to_bytes, workspace_limit_bytes
from hermes_operator.build.secret import agent_config, build_secret

GOLDEN = Path(__file__).parent / "golden"
INSTALLATION = Installation(
    namespace="hermes",
    agent_image="hermes-agent:1",
    sandbox_image="hermes-sandbox:1",
    image_pull_policy="IfNotPresent",
    image_pull_secrets=("mirror",),
    bus=HostAddress("hermes-bus.hermes.svc", ("10.96.0.10",), 4222, (("app.kubernetes.io/component", "bus"),)),
    models=HostAddress("hermes-models.hermes.svc", ("10.96.0.11",), 8645, (("app.kubernetes.io/component", "models"),)),
    bus_url="nats://hermes-bus.hermes.svc:4222",
    models_url="http://hermes-models.hermes.svc:8645",
    gateway_public_key="UPUBLIC",
    resolvers=("10.96.0.2",),
    blocked_cidrs=("203.0.114.0/24", "10.1.0.0/16"),
)
MODEL = {"provider": "scripted", "name": "scripted"}


def epoch(**profile: Any) -> Epoch:
    return Epoch(
        namespace="team",
        session="chat",
        session_uid="uid-1",
        sid="s" + "a" * 25,
        epoch=3,
        profile_name="demo",
        profile=ProfileSpec.model_validate({"model": MODEL, **profile}),
        idle_timeout_seconds=900,
        created_at=1_800_000_000.5,
    )


VARIANTS = {
    "pod-default": {},
    "pod-internet-volume-gvisor": {
        "sandbox": {
            "egress": "Internet",
            "runtimeClassName": "gvisor",
            "workspace": {"kind": "PersistentVolumeClaim", "size": "5Gi"},
        }
    },
}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_pod_is_the_golden_one(name: str) -> None:
    found = build_pod(INSTALLATION, epoch(**VARIANTS[name]))
    path = GOLDEN / f"{name}.yaml"
    assert found == yaml.safe_load(path.read_text()), f"to accept: write build_pod's result to {path.name}"


def test_a_template_changes_with_what_the_pod_is_made_of_and_with_nothing_else() -> None:
    one = pod_template(INSTALLATION, epoch())
    assert one == pod_template(INSTALLATION, epoch(persona="other", idleTimeoutSeconds=5))
    assert one != pod_template(INSTALLATION, epoch(sandbox={"image": "mine:2"}))


def test_the_secret_holds_what_an_agent_reads() -> None:
    secret = build_secret(INSTALLATION, epoch(), bus_credentials="CREDS", models_token="TOKEN")
    files = {name: base64.b64decode(text).decode() for name, text in secret["data"].items()}
    config = AgentConfig.model_validate_json(files["session.json"])
    assert (config.epoch, config.profile, config.gateway_public_key) == (3, "demo", "UPUBLIC")
    assert files["bus.creds"] == "CREDS"
    assert files["models.token"] == "TOKEN"
    assert "CREDS" not in files["session.json"]


def test_a_claim_belongs_to_its_session() -> None:
    claim = build_claim(epoch(sandbox={"workspace": {"kind": "PersistentVolumeClaim", "size": "5Gi"}}))
    assert claim["metadata"]["ownerReferences"][0]["uid"] == "uid-1"
    assert "storageClassName" not in claim["spec"]


def allowed(policy: dict[str, Any], address: str, port: int) -> bool:
    """Tell whether the address rules of a policy let a connection out."""
    found = ipaddress.ip_address(address)
    for rule in policy["spec"]["egress"]:
        ports = rule.get("ports")
        if ports is not None and port not in [p["port"] for p in ports]:
            continue
        for peer in rule["to"]:
            block = peer.get("ipBlock")
            if block is None or found not in ipaddress.ip_network(block["cidr"]):
                continue
            if not any(found in ipaddress.ip_network(other) for other in block.get("except", [])):
                return True
    return False


def test_egress_none_reaches_two_services_and_nothing_else() -> None:
    policy = build_policy(INSTALLATION, "team", "None")
    assert policy["spec"]["ingress"] == []
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert [rule["ports"] for rule in policy["spec"]["egress"]] == [
        [{"protocol": "TCP", "port": 4222}],
        [{"protocol": "TCP", "port": 8645}],
    ]
    assert "ipBlock" not in json.dumps(policy)


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "10.96.0.1", "192.168.1.1", "172.20.0.1", "100.100.100.200", "127.0.0.1", "203.0.114.9",
     "fd00:ec2::254", "fe80::1", "64:ff9b::a9fe:a9fe", "::1", "2002:a9fe:a9fe::1"],
)  # fmt: skip
def test_egress_internet_reaches_no_private_address(address: str) -> None:
    assert not allowed(build_policy(INSTALLATION, "team", "Internet"), address, 443)


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111"])
def test_egress_internet_reaches_public_addresses(address: str) -> None:
    assert allowed(build_policy(INSTALLATION, "team", "Internet"), address, 443)


def test_egress_internet_asks_the_resolvers_for_names_only() -> None:
    policy = build_policy(INSTALLATION, "team", "Internet")
    assert allowed(policy, "10.96.0.2", 53)
    assert not allowed(policy, "10.96.0.2", 443)


def test_services_outside_of_the_cluster_are_reached_by_address() -> None:
    outside = Installation(**{**INSTALLATION.__dict__, "bus": HostAddress("bus.example", ("198.51.100.7",), 4222)})
    policy = build_policy(outside, "team", "None")
    assert allowed(policy, "198.51.100.7", 4222)
    assert not allowed(policy, "198.51.100.7", 80)
    theirs = HostAddress("nats.theirs.svc", ("10.96.9.9",), 4222, (("app", "nats"),), "theirs")
    beside = build_policy(Installation(**{**INSTALLATION.__dict__, "bus": theirs}), "team", "None")
    (peer,) = beside["spec"]["egress"][0]["to"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "theirs"}
    assert peer["podSelector"]["matchLabels"] == {"app": "nats"}


def test_isolation_claims_no_more_than_is_known() -> None:
    assert isolation("kata-qemu") == "VM"
    assert isolation("gvisor") == isolation(None) == "Container"


@pytest.mark.parametrize(("text", "size"), [("500m", 0), ("1k", 1000), ("1.5Gi", 1610612736), ("7", 7)])
def test_quantities(text: str, size: int) -> None:
    assert to_bytes(text) == size


def test_the_quota_is_reached_before_the_kubelet_evicts() -> None:
    assert workspace_limit_bytes("1Gi") > to_bytes("1Gi")
    assert workspace_limit_bytes("10Mi") >= to_bytes("10Mi") + to_bytes("64Mi")
    with pytest.raises(ValueError, match="not a quantity"):
        to_bytes("1 GB")


def test_everything_a_profile_says_about_turns_reaches_the_agent() -> None:
    settings = {
        "persona": "You are terse.",
        "model": {**MODEL, "maxOutputTokens": 500},
        "compression": {"enabled": False, "thresholdPercent": 60, "protectFirst": 1, "protectLast": 9},
        "contextFiles": {"enabled": False, "maxCharacters": 1234},
        "platformHints": {"webhook": "No Markdown."},
        "toolsets": ["file"],
        "budgets": {"maxIterations": 7, "maxTurnSeconds": 70, "maxTurnTokens": 7000, "maxTurnUsd": "0.070000001"},
    }
    found = agent_config(INSTALLATION, epoch(**settings))
    assert found.compression == CompressionConfig(enabled=False, threshold_percent=60, protect_first=1, protect_last=9)
    assert (found.context_files, found.context_file_characters) == (False, 1234)
    assert found.platform_hints == {"webhook": "No Markdown."}
    assert (found.max_iterations, found.max_turn_seconds, found.max_turn_tokens) == (7, 70, 7000)
    assert found.max_turn_cost_nano_usd == 70_000_001
    assert (found.max_output_tokens, found.toolsets, found.persona) == (500, ("file",), "You are terse.")
    assert agent_config(INSTALLATION, epoch()).max_turn_cost_nano_usd is None


def test_an_agent_is_told_of_the_program_only_where_its_turns_are_handed_over() -> None:
    handed = {**MODEL, "apiMode": "codex_app_server"}
    assert agent_config(INSTALLATION, epoch(model=MODEL)).codex is None
    assert agent_config(INSTALLATION, epoch(model=handed)).codex == CodexConfig(command=("codex",))
    own = agent_config(INSTALLATION, epoch(model={**handed, "codex": {"command": ["node", "/opt/codex.js"]}})).codex
    assert own == CodexConfig(command=("node", "/opt/codex.js"))


@pytest.mark.parametrize(("nano", "text"), [(0, "0.00"), (1, "0.00"), (1_500_000_000, "1.50"), (123_456_789, "0.123456")])
def test_amounts_are_cut_and_never_rounded_up(nano: int, text: str) -> None:
    assert usd(nano) == text


def test_amounts_are_read_exactly() -> None:
    assert [nano_usd(text) for text in ("12.50", "0.000000001", "999999999")] == [12_500_000_000, 1, 999_999_999 * 10**9]
