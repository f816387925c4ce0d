"""Says where commands run without a person being asked, so that nobody takes silence for safety. Pure."""

from __future__ import annotations

from hermes_contracts.crd.profile import Approvals
from hermes_operator.reconcile.conditions import Finding

_WHY = {
    "Isolated": "dangerous commands run without asking, because commands run in a sandbox that holds no credential",
    "Off": "dangerous commands run without asking, because spec.approvals.mode is Off",
}
_STILL = "; what would ruin a machine and what spec.approvals.deny names never run"


def unasked(approvals: Approvals) -> Finding | None:
    """Return condition `CommandsUnasked`; None where a person is asked."""
    why = _WHY.get(approvals.mode)
    return None if why is None else Finding("CommandsUnasked", True, approvals.mode, why + _STILL)
