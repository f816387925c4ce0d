"""What the models service calls."""

from __future__ import annotations

from hermes_contracts.conversation import Usage
from hermes_contracts.names import Sid
from hermes_contracts.store_api.base import StoreModel


class RecordUsageRequest(StoreModel):
    """Usage of one model call, unique on (sid, turn, step, attempt id)."""

    sid: Sid
    epoch: int
    turn_id: str
    step: int
    call_id: str
    provider: str
    model: str
    usage: Usage
    outcome: str
    milliseconds: float
