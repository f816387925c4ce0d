"""What waiting pods are made from. Their spec is that of a session's own pod, so that a claimed pod is the same thing."""

from __future__ import annotations

import base64
import copy
from typing import Any

from hermes_contracts.agent_config import BUS_CREDENTIALS_FILE
from hermes_contracts.crd.profile import ProfileSpec
from hermes_contracts.names import (
    ANNOTATION_BUS_KEY,
    API_VERSION,
    LABEL_COMPONENT,
    LABEL_EGRESS,
    LABEL_PART_OF,
    LABEL_POOL,
)
from hermes_contracts.warm_pool import WARM_FILE, Waiting
from hermes_operator.build.facts import Epoch, Installation
from hermes_operator.build.meta import (
    ANNOTATION_TEMPLATE,
    COMPONENT_AGENT,
    MANAGED_BY,
    OPERATOR,
    PART_OF,
    epoch_labels,
    owned_by_session,
    template_hash,
)
from hermes_operator.build.pod import build_pod
from hermes_operator.pool.warm import WarmPod

Manifest = dict[str, Any]
_NOBODY = "s" + "a" * 25


def eligible(profile: ProfileSpec) -> bool:
    """Tell whether a Profile's sessions may take a waiting pod: it asks for some, and needs no volume of its own."""
    return profile.warm_pool.size > 0 and profile.sandbox.workspace.kind != "PersistentVolumeClaim"


def _anonymous(installation: Installation, namespace: str, profile: ProfileSpec) -> Manifest:
    epoch = Epoch(
        namespace=namespace,
        session="nobody",
        session_uid="",
        sid=_NOBODY,
        epoch=1,
        profile_name="nobody",
        profile=profile,
        idle_timeout_seconds=1,
        created_at=0.0,
    )
    return build_pod(installation, epoch)


def class_of(installation: Installation, namespace: str, profile: ProfileSpec) -> str:
    """Return the class of a Profile's pods: a hash of all that a pod of its sessions is made from, whose it is apart."""
    body = _anonymous(installation, namespace, profile)
    meta = body["metadata"]
    # The template too: a session replaces a pod whose template is not its own, whatever its spec says.
    return template_hash(namespace, body["spec"], meta["labels"][LABEL_EGRESS], meta["annotations"][ANNOTATION_TEMPLATE])


def build_warm_pod(
    installation: Installation, namespace: str, name: str, profile: ProfileSpec, owners: list[tuple[str, str]]
) -> Manifest:
    """Return a pod that waits. It belongs to the Profiles (name and UID) that want it, and goes with the last of them."""
    body = copy.deepcopy(_anonymous(installation, namespace, profile))
    for volume in body["spec"]["volumes"]:
        if "secret" in volume:
            volume["secret"]["secretName"] = name
    body["metadata"] |= {
        "name": name,
        "labels": {
            LABEL_POOL: class_of(installation, namespace, profile),
            LABEL_PART_OF: PART_OF,
            LABEL_COMPONENT: COMPONENT_AGENT,
            MANAGED_BY: OPERATOR,
            LABEL_EGRESS: profile.sandbox.egress.lower(),
        },
        "ownerReferences": [
            {"apiVersion": API_VERSION, "kind": "Profile", "name": owner, "uid": uid} for owner, uid in owners
        ],
    }
    return body


def build_bootstrap(pod: WarmPod, waiting: Waiting, bus_credentials: str) -> Manifest:
    """Return the Secret that a waiting pod starts with; it belongs to the pod, whose UID is in the credential."""
    files = {WARM_FILE: waiting.model_dump_json(), BUS_CREDENTIALS_FILE: bus_credentials}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "labels": {LABEL_POOL: pod.group, LABEL_PART_OF: PART_OF, MANAGED_BY: OPERATOR},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}],
        },
        "data": {name: base64.b64encode(text.encode()).decode() for name, text in files.items()},
    }


def claim_patch(pod: WarmPod, epoch: Epoch, bus_key: str) -> Manifest:
    """Return the merge patch that makes a pod a session's, if nothing has changed it since it was seen."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "resourceVersion": pod.resource_version,
            "labels": {**epoch_labels(epoch.sid, epoch.epoch, epoch.profile_name), LABEL_POOL: None},
            "annotations": {ANNOTATION_BUS_KEY: bus_key},
            "ownerReferences": owned_by_session(epoch.session, epoch.session_uid),
        },
    }
