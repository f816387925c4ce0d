"""What every request and answer is built from."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from hermes_contracts import PROTOCOL_VERSION
from hermes_contracts.errors import ErrorBody


class StoreModel(BaseModel):
    """A request or an answer; carries the protocol's version."""

    # Built at first use: a process uses a part of these, and building them all is a third of an agent's import time.
    model_config = ConfigDict(frozen=True, defer_build=True)

    version: int = PROTOCOL_VERSION


class Reply(StoreModel):
    """What travels back: exactly one of the two."""

    result: dict[str, object] | None = None
    error: ErrorBody | None = None


class Empty(StoreModel):
    """Nothing to say."""
