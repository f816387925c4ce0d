"""Reading what a platform sends, whose form nobody vouches for. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Refused:
    """Something that is no message for us, and why."""

    reason: str


def object_at(body: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the object that a field holds; an empty one when it holds none."""
    found = body.get(name)
    return found if isinstance(found, dict) else {}
