"""Arithmetic of Kubernetes quantities, in one place."""

from __future__ import annotations

import re
from decimal import Decimal

from hermes_contracts.crd.profile import ProfileSpec

_FORMAT = re.compile(r"^([0-9]+(?:\.[0-9]+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")
_FACTORS = {
    None: Decimal(1), "m": Decimal("0.001"), "k": Decimal(1000), "M": Decimal(1000) ** 2, "G": Decimal(1000) ** 3,
    "T": Decimal(1000) ** 4, "Ki": Decimal(1024), "Mi": Decimal(1024) ** 2, "Gi": Decimal(1024) ** 3,
    "Ti": Decimal(1024) ** 4,
}  # fmt: skip
MIB = 1024 * 1024
_SAVING_SECONDS = 60


def to_bytes(quantity: str) -> int:
    """Return a quantity in whole bytes, rounded down. Raises ValueError for text that is none."""
    match = _FORMAT.match(quantity)
    if match is None:
        raise ValueError(f"not a quantity: {quantity[:20]!r}; write for example 512Mi")
    return int(Decimal(match[1]) * _FACTORS[match[2]])


def workspace_limit_bytes(size: str) -> int:
    """Return where the kubelet evicts: above the quota, so that sandboxd refuses a write before a pod dies of it."""
    wanted = to_bytes(size)
    return wanted + max(wanted // 8, 64 * MIB)


def saving_seconds(profile: ProfileSpec) -> int:
    """Return how much longer an agent may take to end that saves its workspace before."""
    return _SAVING_SECONDS if profile.sandbox.workspace.kind == "Archive" else 0


def disk_request_bytes(limit: int) -> int:
    """Return the disk that a pod reserves on its node: an eighth of what it may use, because most use little."""
    return max(limit // 8, MIB)
