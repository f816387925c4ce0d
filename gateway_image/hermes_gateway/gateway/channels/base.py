"""What every channel hands to the ingest."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts.names import RoutingKey


@dataclass(frozen=True)
class Arrival:
    """A verified message of a platform: where it was written, which one it is, and what it says."""

    key: RoutingKey
    update_id: str
    text: str
    sender: str = ""
