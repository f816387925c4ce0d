"""The table of rights: the client refuses what is not in it, and the chart's roles hold nothing more."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import generate
from generators import crds, roles, values_schema
from hermes_contracts.crd.registry import KINDS
from hermes_contracts.installation import INSTALLATION_SECRETS
from hermes_operator.cluster.client import ClusterClient, Reach
from hermes_operator.cluster.errors import ClusterError, start_reason
from hermes_operator.cluster.permissions import PERMISSIONS, Scope, allowed
from hermes_operator.cluster.resources import NAMESPACES, PODS, PROFILES, SECRETS, SESSIONS

ROOT = Path(__file__).resolve().parents[3]
TENANT = frozenset({Scope.TENANT})


def test_generated_files_are_what_their_sources_say() -> None:
    assert generate.stale(ROOT, generate.wanted(ROOT, with_install=False)) == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_definitions_are_small_structural_and_bounded(kind: object) -> None:
    text = crds.render(crds.definition(kind))  # type: ignore[arg-type]
    assert len(text) < 200_000
    version = yaml.safe_load(text)["spec"]["versions"][0]
    assert version["subresources"] == {"status": {}}
    root = version["schema"]["openAPIV3Schema"]["properties"]
    _bounded(root["spec"], "spec")
    _bounded(root["status"], "status")
    conditions = root["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


def _bounded(schema: dict[str, object], where: str) -> None:
    assert not {"anyOf", "$ref", "title", "const"} & schema.keys(), where
    if schema["type"] == "string":
        assert "enum" in schema or "maxLength" in schema, where
    if schema["type"] == "array":
        assert "maxItems" in schema, where
        _bounded(schema["items"], f"{where}[]")  # type: ignore[arg-type]
    for name, child in schema.get("properties", {}).items():  # type: ignore[attr-defined]
        _bounded(child, f"{where}.{name}")


def test_no_right_on_secrets_pods_or_policies_is_cluster_wide() -> None:
    wide = {(p.group, p.resource) for p in PERMISSIONS if p.scope is Scope.CLUSTER}
    kinds = {("hermes.run", kind.plural) for kind in KINDS}
    assert wide == {*kinds, ("", "namespaces")}
    verbs = {verb for p in PERMISSIONS if p.scope is Scope.CLUSTER for verb in p.verbs}
    assert verbs == {"get", "list", "watch"}


def test_secrets_are_never_listed_and_in_the_release_only_ours_are_read() -> None:
    assert not allowed("list", "", "secrets", TENANT)
    assert not allowed("watch", "", "secrets", frozenset(Scope))
    release = [p for p in PERMISSIONS if p.scope is Scope.RELEASE and p.resource == "secrets" and "get" in p.verbs]
    assert [p.installation_secrets for p in release] == [True]
    [text] = roles.files().values()
    for secret in INSTALLATION_SECRETS:
        assert f"-{secret.suffix}" in text


async def test_the_client_refuses_a_call_that_is_not_in_the_table() -> None:
    client = ClusterClient(None, None, Reach("hermes", frozenset({"team"})))  # type: ignore[arg-type]
    with pytest.raises(ClusterError, match="list secrets in team is not in cluster"):
        await client.list(SECRETS, "team")
    with pytest.raises(ClusterError, match="get pods in elsewhere"):
        await client.get(PODS, "elsewhere", "x")
    with pytest.raises(ClusterError, match="delete namespaces in the cluster"):
        await client.delete(NAMESPACES, "", "team")
    with pytest.raises(ClusterError, match="patch profiles in team"):
        await client.apply(PROFILES, {"metadata": {"name": "x", "namespace": "team"}})


def test_paths() -> None:
    assert SESSIONS.status.path("team", "chat") == "/apis/hermes.run/v1alpha1/namespaces/team/hermessessions/chat/status"
    assert NAMESPACES.path("", "team") == "/api/v1/namespaces/team"


@pytest.mark.parametrize(
    ("status", "text", "reason"),
    [
        (403, 'pods "a" is forbidden: exceeded quota: none, requested: pods=1', "QuotaExceeded"),
        (403, 'violates PodSecurity "restricted:latest"', "PodSecurityRefused"),
        (403, "because it is being terminated", "NamespaceTerminating"),
        (403, "error looking up service account team/default", "ServiceAccountMissing"),
        (422, "is invalid", "PodInvalid"),
        (0, "the API server does not answer", "ClusterUnavailable"),
    ],
)
def test_a_refused_pod_has_a_reason(status: int, text: str, reason: str) -> None:
    assert start_reason(ClusterError(status, "", text)) == reason


def test_values_get_types_and_bounds(tmp_path: Path) -> None:
    chart = tmp_path / "charts/hermes"
    chart.mkdir(parents=True)
    (chart / "values.yaml").write_text("tenants: []\nlogLevel: info\ngateway: {replicas: 2, extra: {}}\n")
    [text] = values_schema.files(tmp_path).values()
    found = yaml.safe_load(text)["properties"]
    assert found["gateway"]["additionalProperties"] is False
    assert found["gateway"]["properties"]["replicas"]["maximum"] == 100
    assert found["gateway"]["properties"]["extra"] == {"type": "object"}
    assert "info" in found["logLevel"]["enum"]
