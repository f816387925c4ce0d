"""Labels, annotations and owner references that every object of ours carries."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from hermes_contracts.names import (
    API_VERSION,
    GROUP,
    LABEL_COMPONENT,
    LABEL_EPOCH,
    LABEL_PART_OF,
    LABEL_PROFILE,
    LABEL_SID,
)

PART_OF = "hermes"
COMPONENT_AGENT = "agent"
MANAGED_BY = "app.kubernetes.io/managed-by"
OPERATOR = "hermes-operator"
ANNOTATION_TEMPLATE = f"{GROUP}/template"
"""Hash of what a pod or policy was made from: differs when its Profile or the installation changed."""


def session_labels(sid: str, profile: str) -> dict[str, str]:
    """Return the labels of everything that belongs to a session."""
    return {LABEL_SID: sid, LABEL_PROFILE: profile, LABEL_PART_OF: PART_OF, MANAGED_BY: OPERATOR}


def epoch_labels(sid: str, epoch: int, profile: str) -> dict[str, str]:
    """Return the labels of what belongs to one epoch of a session."""
    return {**session_labels(sid, profile), LABEL_EPOCH: str(epoch), LABEL_COMPONENT: COMPONENT_AGENT}


def owned_by_session(name: str, uid: str) -> list[dict[str, Any]]:
    """Return the owner reference that has Kubernetes clean up after a session."""
    return [
        {
            "apiVersion": API_VERSION,
            "kind": "HermesSession",
            "name": name,
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def template_hash(*parts: object) -> str:
    """Return a short hash of JSON-like values."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
