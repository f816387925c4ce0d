"""Puts values of a payload into a text: `{pull_request.title}`, `{items.0.name}`, `{__raw__}`. No code, no formats. Pure."""

from __future__ import annotations

import json
import re

_PLACE = re.compile(r"\{([A-Za-z0-9_][A-Za-z0-9_.-]{0,199})\}")
_WHOLE = "__raw__"
_MAX_WHOLE = 4000
_MAX_PART = 2000
_MISSING = object()


def render(template: str, value: object, raw: str) -> str:
    """Return the text. Objects and lists are shown as JSON, cut; what is missing is said. Values are no templates."""
    return _PLACE.sub(lambda match: _shown(match[1], value, raw), template)


def whole(value: object, raw: str) -> str:
    """Return all of a payload, as JSON where it is some, cut to 4,000 characters."""
    return _cut(raw if value is None else json.dumps(value, ensure_ascii=False, indent=2), _MAX_WHOLE)


def _shown(path: str, value: object, raw: str) -> str:
    if path == _WHOLE:
        return whole(value, raw)
    found = _find(path, value)
    if found is _MISSING:
        return f"(missing: {path})"
    if isinstance(found, str):
        return found
    return _cut(json.dumps(found, ensure_ascii=False), _MAX_PART)


def _find(path: str, value: object) -> object:
    for key in path.split("."):
        if isinstance(value, dict):
            value = value.get(key, _MISSING)
        elif isinstance(value, list) and key.isascii() and key.isdigit() and len(key) < 6 and int(key) < len(value):
            value = value[int(key)]
        else:
            return _MISSING
    return value


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n(cut: {len(text) - most} more characters)"
