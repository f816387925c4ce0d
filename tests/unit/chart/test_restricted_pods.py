"""Every pod of the chart may run in a namespace that enforces the restricted Pod Security Standard, and a little more."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

ALLOWED_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
TOKEN = {"ours-operator", "ours-models"}


def violations(spec: dict[str, Any]) -> Iterator[str]:
    """Say how a pod's spec breaks the restricted profile, or our own rules on top of it."""
    pod = spec.get("securityContext", {})
    if pod.get("runAsNonRoot") is not True or not pod.get("runAsUser"):
        yield "runs as root"
    if pod.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield "no seccomp profile"
    yield from (f"{key} is set" for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key))
    for volume in spec.get("volumes", []):
        kinds = set(volume) - {"name"}
        if not kinds <= ALLOWED_VOLUMES:
            yield f"volume {volume['name']} is {kinds}"
        if "emptyDir" in volume and not volume["emptyDir"].get("sizeLimit"):
            yield f"volume {volume['name']} has no size"
    if spec.get("enableServiceLinks") is not False:
        yield "service links"
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        yield from (f"{container['name']}: {problem}" for problem in container_violations(container))


def container_violations(container: dict[str, Any]) -> Iterator[str]:
    """The part of the rules about one container."""
    context = container.get("securityContext", {})
    if context.get("allowPrivilegeEscalation") is not False or context.get("privileged"):
        yield "may gain privileges"
    if context.get("capabilities") != {"drop": ["ALL"]}:
        yield "has capabilities"
    if context.get("readOnlyRootFilesystem") is not True:
        yield "its root is writable"
    if context.get("runAsUser") == 0 or context.get("runAsNonRoot") is False:
        yield "runs as root"
    yield from ("has a host port" for port in container.get("ports", []) if "hostPort" in port)
    resources = container.get("resources", {})
    if not {"cpu", "memory"} <= set(resources.get("requests", {})) or "memory" not in resources.get("limits", {}):
        yield "has no requests or no memory limit"


def test_every_pod_is_restricted(chart) -> None:
    pods = chart.pods()
    assert len(pods) >= 5
    assert {name: problems for name, pod in pods.items() if (problems := list(violations(pod["spec"])))} == {}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("securityContext", "runAsNonRoot"), False),
        (("securityContext", "seccompProfile"), {"type": "Unconfined"}),
        (("hostNetwork",), True),
        (("enableServiceLinks",), None),
        (("volumes", 0), {"name": "host", "hostPath": {"path": "/"}}),
        (("volumes", 0), {"name": "tmp", "emptyDir": {}}),
        (("containers", 0, "securityContext", "readOnlyRootFilesystem"), False),
        (("containers", 0, "securityContext", "capabilities"), {"drop": ["ALL"], "add": ["NET_ADMIN"]}),
        (("containers", 0, "securityContext", "allowPrivilegeEscalation"), True),
        (("containers", 0, "resources"), {}),
    ],
)
def test_the_rules_notice_a_pod_that_breaks_them(render, path, value) -> None:
    spec = copy.deepcopy(render("default").pods()["ours-gateway"]["spec"])
    *where, last = path
    target = spec
    for step in where:
        target = target[step]
    target[last] = value
    assert list(violations(spec))


def test_only_who_talks_to_kubernetes_has_a_token(chart) -> None:
    with_token = {name for name, pod in chart.pods().items() if pod["spec"]["automountServiceAccountToken"] is not False}
    assert with_token == TOKEN
    assert all(found["automountServiceAccountToken"] is False for found in chart.of("ServiceAccount").values())


def test_every_service_has_probes_and_ends_in_time(chart) -> None:
    for name, pod in chart.pods().items():
        if name == "ours-test":
            continue
        container = pod["spec"]["containers"][0]
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container), name
        assert pod["spec"]["terminationGracePeriodSeconds"] >= 30, name
