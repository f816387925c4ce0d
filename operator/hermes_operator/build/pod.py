"""The pod of one epoch of a session: the agent, and beside it the sandbox that runs every command."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from hermes_contracts.agent_config import MOUNT_PATH, SOCKET_DIRECTORY, SOCKET_PATH, WORKSPACE_PATH
from hermes_contracts.crd.base import Resources
from hermes_contracts.names import LABEL_EGRESS, credentials_name, pod_name, workspace_name
from hermes_operator.build.facts import Epoch, Installation
from hermes_operator.build.meta import ANNOTATION_TEMPLATE, epoch_labels, owned_by_session, template_hash
from hermes_operator.build.quantity import disk_request_bytes, saving_seconds, to_bytes, workspace_limit_bytes

Manifest = dict[str, Any]

AGENT = "agent"
SANDBOX = "sandbox"
AGENT_UID = 10001
SANDBOX_UID = 10002
SHARED_GID = 10000
"""Group of the socket, the workspace and the mounted Secret."""
NODE_LOST_SECONDS = 30
"""How long a pod stays on a node that does not answer; then its session starts elsewhere under a new epoch."""
TERMINATION_SECONDS = 30
_AGENT_TMP = "64Mi"
_NOBODY_LISTENS = "127.0.0.1"


def pod_template(installation: Installation, epoch: Epoch) -> str:
    """Return a hash of what a pod is made from, apart from whose it is."""
    sandbox, agent = epoch.profile.sandbox, epoch.profile.agent
    return template_hash(
        sandbox.model_dump(mode="json"),
        agent.model_dump(mode="json"),
        installation.agent_image,
        sandbox.image or installation.sandbox_image,
        installation.image_pull_secrets,
    )


def build_pod(installation: Installation, epoch: Epoch) -> Manifest:
    """Return the pod's manifest."""
    sandbox = epoch.profile.sandbox
    labels = epoch_labels(epoch.sid, epoch.epoch, epoch.profile_name) | {LABEL_EGRESS: sandbox.egress.lower()}
    spec: Manifest = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": TERMINATION_SECONDS + saving_seconds(epoch.profile),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "fsGroup": SHARED_GID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{taint}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": NODE_LOST_SECONDS,
            }
            for taint in ("not-ready", "unreachable")
        ],
        "hostAliases": _host_aliases(installation),
        **_dns(sandbox.egress),
        "initContainers": [_sandbox(installation, epoch)],
        "containers": [_agent(installation, epoch)],
        "volumes": _volumes(epoch),
    }
    if sandbox.runtime_class_name:
        spec["runtimeClassName"] = sandbox.runtime_class_name
    if installation.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in installation.image_pull_secrets]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(epoch.session, epoch.epoch),
            "namespace": epoch.namespace,
            "labels": labels,
            "annotations": {
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
                ANNOTATION_TEMPLATE: pod_template(installation, epoch),
            },
            "ownerReferences": owned_by_session(epoch.session, epoch.session_uid),
        },
        "spec": spec,
    }


def _host_aliases(installation: Installation) -> list[Manifest]:
    """Name the platform's services in /etc/hosts: without egress there is no DNS to ask."""
    names: dict[str, set[str]] = {}
    for service in (installation.bus, installation.models):
        for address in service.aliased():
            names.setdefault(address, set()).add(service.host)
    return [{"ip": address, "hostnames": sorted(hosts)} for address, hosts in sorted(names.items())]


def _dns(egress: str) -> Manifest:
    if egress == "None":
        # A pod without DNS must still name a server.
        return {"dnsPolicy": "None", "dnsConfig": {"nameservers": [_NOBODY_LISTENS]}}
    return {"dnsPolicy": "ClusterFirst"}


def _hardened(uid: int) -> Manifest:
    return {
        "runAsUser": uid,
        "runAsGroup": uid,
        "runAsNonRoot": True,
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _resources(wanted: Resources, extra_disk_bytes: int = 0) -> Manifest:
    disk = to_bytes(wanted.ephemeral_storage) + extra_disk_bytes
    return {
        "requests": {
            "cpu": wanted.cpu,
            "memory": wanted.memory,
            "ephemeral-storage": str(disk_request_bytes(disk)),
        },
        "limits": {"memory": wanted.memory, "ephemeral-storage": str(disk)},
    }


def _sandbox(installation: Installation, epoch: Epoch) -> Manifest:
    sandbox = epoch.profile.sandbox
    own_disk = sandbox.workspace.kind == "PersistentVolumeClaim"
    workspace_bytes = 0 if own_disk else workspace_limit_bytes(sandbox.workspace.size)
    return {
        "name": SANDBOX,
        "image": sandbox.image or installation.sandbox_image,
        "imagePullPolicy": installation.image_pull_policy,
        "restartPolicy": "Always",
        "args": [
            "--socket",
            SOCKET_PATH,
            "--workspace",
            WORKSPACE_PATH,
            "--peer-uid",
            str(AGENT_UID),
            "--max-workspace-bytes",
            str(to_bytes(sandbox.workspace.size)),
        ],
        "securityContext": _hardened(SANDBOX_UID),
        "resources": _resources(sandbox.resources, workspace_bytes),
        "volumeMounts": [
            {"name": "exec", "mountPath": SOCKET_DIRECTORY},
            {"name": "workspace", "mountPath": WORKSPACE_PATH},
            {"name": "sandbox-tmp", "mountPath": "/tmp"},
        ],
    }


def _agent(installation: Installation, epoch: Epoch) -> Manifest:
    return {
        "name": AGENT,
        "image": installation.agent_image,
        "imagePullPolicy": installation.image_pull_policy,
        "securityContext": _hardened(AGENT_UID),
        "resources": _resources(epoch.profile.agent.resources),
        "volumeMounts": [
            {"name": "session", "mountPath": MOUNT_PATH, "readOnly": True},
            {"name": "exec", "mountPath": SOCKET_DIRECTORY, "readOnly": True},
            {"name": "agent-tmp", "mountPath": "/tmp"},
        ],
    }


def _volumes(epoch: Epoch) -> list[Manifest]:
    sandbox = epoch.profile.sandbox
    if sandbox.workspace.kind == "PersistentVolumeClaim":
        workspace: Manifest = {"persistentVolumeClaim": {"claimName": workspace_name(epoch.session)}}
    else:
        workspace = {"emptyDir": {"sizeLimit": str(workspace_limit_bytes(sandbox.workspace.size))}}
    return [
        {
            "name": "session",
            "secret": {"secretName": credentials_name(epoch.session, epoch.epoch), "defaultMode": 0o440},
        },
        {"name": "exec", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "workspace", **workspace},
        {"name": "sandbox-tmp", "emptyDir": {"sizeLimit": sandbox.resources.ephemeral_storage}},
        {"name": "agent-tmp", "emptyDir": {"sizeLimit": _AGENT_TMP}},
    ]


def isolation(runtime_class_name: str | None) -> str:
    """Say what stands between a command and the node; a runtime class that is not known to be a VM counts as none."""
    return "VM" if (runtime_class_name or "").startswith("kata") else "Container"


def host_and_port(url: str, default_port: int) -> tuple[str, int]:
    """Return where a URL points. Raises ValueError when it names no host."""
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError(f"{url!r} names no host")
    return parts.hostname, parts.port or default_port
