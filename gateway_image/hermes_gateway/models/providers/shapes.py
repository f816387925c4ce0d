"""Checked access to a provider's JSON: a wrong shape raises TypeError, what is absent is empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Json = dict[str, object]


def mapping(value: object) -> Mapping[str, object]:
    """Return an object; None is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError("expected an object")
    return value


def mappings(value: object) -> Sequence[Mapping[str, object]]:
    """Return a list of objects; None is an empty one."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise TypeError("expected a list")
    return [mapping(entry) for entry in value]


def string(value: object) -> str:
    """Return text; None is an empty one."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError("expected text")
    return value


def index(value: object) -> int:
    """Return an index."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("expected an index")
    return value


def number(value: object, *path: str) -> int:
    """Return the number at the end of a path; 0 when there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return int(value) if isinstance(value, (int, float)) and value > 0 else 0
