"""Raises a session's epoch in the store."""

from __future__ import annotations

import re

from hermes_contracts.envelopes import Route
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import RAISE_EPOCH, RaiseEpochRequest
from hermes_service.rpc import StoreClient

_CURRENT_EPOCH = re.compile(r"current epoch is (\d+)")
_PATIENCE_SECONDS = 3.0


async def raise_epoch(store: StoreClient, route: Route, expected: int) -> int:
    """Return the epoch that is now the session's own, whatever it was before.

    Who raises is the only one who does so: a lost comparison means that what we expected was old, and is made once more
    with what the store says. Raises HermesError: CONFLICT when it is lost again, UNAVAILABLE when nobody answers.
    """
    try:
        raised = await store.call(
            RAISE_EPOCH, RaiseEpochRequest(route=route, expected=expected), patience_seconds=_PATIENCE_SECONDS
        )
    except HermesError as error:
        current = _CURRENT_EPOCH.search(error.message)
        if error.code is not ErrorCode.CONFLICT or current is None:
            raise
        request = RaiseEpochRequest(route=route, expected=int(current[1]))
        raised = await store.call(RAISE_EPOCH, request, patience_seconds=_PATIENCE_SECONDS)
    return raised.epoch
