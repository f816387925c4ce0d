"""Updates that are one message of a person's: an album, and a long text that his client has cut in pieces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hermes_gateway.text.split import utf16_units

Update = dict[str, Any]

WINDOW_SECONDS = 0.8
"""How long the next part is waited for."""
_NEARLY_FULL_UNITS = 4_000
"""Clients cut at a space or a line's end, at 4,096 units or a little before."""
_APART_SECONDS = 2


def goes_on(update: Update) -> bool:
    """Tell whether another part may follow."""
    message = _message(update)
    return message.get("media_group_id") is not None or utf16_units(_text(message)) >= _NEARLY_FULL_UNITS


def follows(earlier: Update, later: Update) -> bool:
    """Tell whether an update is the next part of the message that an earlier one is a part of."""
    before, after = _message(earlier), _message(later)
    if not goes_on(earlier) or any(before.get(name) != after.get(name) for name in ("message_thread_id", "media_group_id")):
        return False
    if any(_id(before, name) is None or _id(before, name) != _id(after, name) for name in ("chat", "from")):
        return False
    if before.get("media_group_id") is not None:
        return True
    # A command is one of its own: it may be what stops the text before it.
    return bool(_text(after)) and not _text(after).startswith("/") and _soon_after(before, after)


def joined(updates: Iterable[Update]) -> list[list[Update]]:
    """Put the parts of each message together, in the order in which the messages began."""
    groups: list[list[Update]] = []
    for update in updates:
        group = next((group for group in reversed(groups) if follows(group[-1], update)), None)
        if group is None:
            groups.append([update])
        else:
            group.append(update)
    return groups


def open_parts(updates: Iterable[Update]) -> int:
    """Count the parts of the messages that may not be whole yet."""
    return sum(len(group) for group in joined(updates) if goes_on(group[-1]))


def _soon_after(before: dict[str, Any], after: dict[str, Any]) -> bool:
    times = before.get("date"), after.get("date"), before.get("message_id"), after.get("message_id")
    first, second, number, next_number = (time if isinstance(time, int) else 0 for time in times)
    return number < next_number and 0 <= second - first <= _APART_SECONDS


def _message(update: Update) -> dict[str, Any]:
    found = update.get("message")
    return found if isinstance(found, dict) else {}


def _text(message: dict[str, Any]) -> str:
    found = message.get("text")
    return found if isinstance(found, str) else ""


def _id(message: dict[str, Any], name: str) -> object:
    found = message.get(name)
    return found.get("id") if isinstance(found, dict) else None
