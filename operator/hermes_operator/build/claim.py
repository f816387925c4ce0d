"""The volume that keeps a session's files while it sleeps."""

from __future__ import annotations

from typing import Any

from hermes_contracts.names import workspace_name
from hermes_operator.build.facts import Epoch
from hermes_operator.build.meta import owned_by_session, session_labels


def build_claim(epoch: Epoch) -> dict[str, Any]:
    """Return the PersistentVolumeClaim; it belongs to the session and goes with it."""
    workspace = epoch.profile.sandbox.workspace
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": workspace.size}},
    }
    if workspace.storage_class_name is not None:
        spec["storageClassName"] = workspace.storage_class_name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": workspace_name(epoch.session),
            "namespace": epoch.namespace,
            "labels": session_labels(epoch.sid, epoch.profile_name),
            "ownerReferences": owned_by_session(epoch.session, epoch.session_uid),
        },
        "spec": spec,
    }
