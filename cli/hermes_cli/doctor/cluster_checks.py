"""Checks of a release on a cluster, from the objects that kubectl shows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hermes_cli.doctor.finding import Finding, fail, ok, warn
from hermes_contracts.names import GROUP, LABEL_COMPONENT

Object = Mapping[str, Any]

REQUIRED_KINDS = (f"profiles.{GROUP}", f"hermessessions.{GROUP}", f"hermescronjobs.{GROUP}")
OUR_PODS = ("operator", "gateway", "store", "models")
MAYBE_EXTERNAL = {"bus": "NATS", "database": "PostgreSQL"}
_ALARMING = {"Ready": "False", "DeliveryFailed": "True", "DeadLetter": "True", "BusReady": "False", "SandboxReady": "False"}
_MOST_SESSIONS = 10


def check_kinds(names: Sequence[str]) -> Finding:
    """Say whether the cluster knows our kinds."""
    missing = [kind for kind in REQUIRED_KINDS if kind not in names]
    if missing:
        return fail("kinds", f"the cluster does not know {', '.join(missing)}", "install the chart, or its CRDs (crds/)")
    return ok("kinds", ", ".join(sorted(name.split(".")[0] for name in names)))


def check_pods(pods: Sequence[Object], namespace: str, release: str) -> list[Finding]:
    """Say of each part of the release whether its pods are ready."""
    if not pods:
        what = f"nothing of a release {release!r} runs in namespace {namespace}"
        return [fail("release", what, "check --namespace and --release; helm list -A shows what is installed")]
    found: dict[str, list[Object]] = {}
    for pod in pods:
        found.setdefault(pod["metadata"].get("labels", {}).get(LABEL_COMPONENT, "?"), []).append(pod)
    named = [(name, found.pop(name, [])) for name in (*OUR_PODS, *MAYBE_EXTERNAL)]
    return [_component(name, of_it, namespace) for name, of_it in [*named, *sorted(found.items())]]


def _component(name: str, pods: Sequence[Object], namespace: str) -> Finding:
    check = f"pods: {name}"
    if not pods and name in MAYBE_EXTERNAL:
        return ok(check, f"none here: {MAYBE_EXTERNAL[name]} is outside of the release")
    if not pods:
        return fail(check, "no pod", f"kubectl describe deployment -n {namespace} -l {LABEL_COMPONENT}={name}")
    bad = [(pod["metadata"]["name"], reason) for pod in pods if (reason := why_not_ready(pod))]
    if not bad:
        return ok(check, f"{len(pods)} ready")
    pod_name, reason = bad[0]
    shown = f"{pod_name}: {reason}"
    todo = f"kubectl describe pod {pod_name} -n {namespace}; kubectl logs {pod_name} -n {namespace}"
    return fail(check, shown, todo) if len(bad) == len(pods) else warn(check, f"{len(bad)} of {len(pods)}: {shown}", todo)


def why_not_ready(pod: Object) -> str:
    """Return what keeps a pod from being ready; empty when it is, or has done its work."""
    status = pod.get("status", {})
    conditions = {c["type"]: c for c in status.get("conditions", [])}
    if status.get("phase") == "Succeeded" or conditions.get("Ready", {}).get("status") == "True":
        return ""
    for container in (*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])):
        waiting = container.get("state", {}).get("waiting")
        if waiting and waiting.get("reason") not in (None, "PodInitializing", "ContainerCreating"):
            return f"{waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")[:300]
    for kind in ("PodScheduled", "Ready"):
        found = conditions.get(kind, {})
        if found.get("status") == "False" and found.get("message"):
            return str(found["message"])[:300]
    return str(status.get("phase", "Unknown"))


def check_profiles(profiles: Sequence[Object]) -> list[Finding]:
    """Say which Profiles are not ready, and why."""
    if not profiles:
        todo = "apply one of manifests/samples, or let the operator make the first one (chart value firstProfile)"
        return [fail("Profiles", "there is none in the namespace", todo)]
    findings = []
    for profile in profiles:
        name = profile["metadata"]["name"]
        conditions = {c["type"]: c for c in profile.get("status", {}).get("conditions", [])}
        ready = conditions.get("Ready")
        check = f"Profile {name} (cluster)"
        if ready is None:
            findings.append(fail(check, "the operator has not looked at it", "look at the operator's pods and logs"))
        elif ready["status"] != "True":
            findings.append(fail(check, _said(ready), f"correct it: kubectl describe profile {name}"))
        elif conditions.get("NamespaceRestricted", {}).get("status") == "False":
            todo = "label the namespace pod-security.kubernetes.io/enforce=restricted"
            findings.append(warn(check, _said(conditions["NamespaceRestricted"]), todo))
        else:
            findings.append(ok(check, "ready"))
    return findings


def check_sessions(sessions: Sequence[Object]) -> list[Finding]:
    """Say which sessions are in trouble, the first few by name."""
    findings = []
    for session in sessions:
        name = session["metadata"]["name"]
        for found in session.get("status", {}).get("conditions", []):
            alarming = _ALARMING.get(found["type"]) == found["status"]
            asleep = session.get("status", {}).get("state") in ("Asleep", "Suspended", "Starting", "Draining")
            if alarming and not (found["type"] == "Ready" and asleep):
                findings.append(warn(f"session {name}", _said(found), f"kubectl describe hs {name}; hermes logs {name}"))
                break
    rest = len(findings) - _MOST_SESSIONS
    if rest > 0:
        more = warn("sessions", f"{rest} more are in trouble", "kubectl get hs -o wide")
        return [*findings[:_MOST_SESSIONS], more]
    return findings or [ok("sessions", f"{len(sessions)}, none in trouble")]


def _said(condition: Mapping[str, Any]) -> str:
    why = f"{condition.get('reason', '')} {condition.get('message', '')}".strip()
    return f"{condition['type']} is {condition['status']}: {why}"


def check_policies(policies: Sequence[Object], release: str) -> Finding:
    """Say whether the walls of the network are there."""
    names = {policy["metadata"]["name"] for policy in policies}
    wanted = {f"{release}-gateway", f"{release}-store", f"{release}-models", f"{release}-operator"}
    missing = sorted(wanted - names)
    if missing:
        lack = f"missing: {', '.join(missing)}"
        return warn("network policies", lack, "set networkPolicy.enabled in the chart's values, unless you have your own")
    return ok("network policies", f"{len(names)} there; that the cluster's network enforces them is not seen from here")
