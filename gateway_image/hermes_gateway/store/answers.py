"""How a reply becomes what leaves the store: parts that a channel takes, and a bounded copy in the event. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass

from hermes_gateway.text.split import Measure, split_markdown, utf16_units

MAX_EVENT_REPLY_BYTES = 256 * 1024
"""Longest reply inside an event, as JSON; a longer one is cut and flagged, and is read whole with `get_turn`."""
MAX_PART_BYTES = 400 * 1024
"""Longest text of one part, as JSON, so that it fits a message of the bus whatever the channel allows."""


@dataclass(frozen=True)
class ChannelLimit:
    """`characters` that one part may hold; None: nothing is delivered, the caller reads the answer himself."""

    characters: int | None
    measure: Measure = len
    chat: bool = False
    """Shown as Markdown in a chat: each part must be whole by itself."""


CHANNEL_LIMITS: dict[str, ChannelLimit] = {
    "api": ChannelLimit(None),
    "object": ChannelLimit(None),
    "webhook": ChannelLimit(100_000),
    "slack": ChannelLimit(3_500, chat=True),
    "telegram": ChannelLimit(3_500, utf16_units, chat=True),
    "home": ChannelLimit(3_500, utf16_units, chat=True),
}
_OTHER_CHANNELS = ChannelLimit(4_000)


def is_delivered(channel: str) -> bool:
    """Tell whether answers are sent there; else the caller reads them himself."""
    return CHANNEL_LIMITS.get(channel, _OTHER_CHANNELS).characters is not None


def split_reply(channel: str, reply: str) -> list[str]:
    """Cut a reply into the parts that are sent one after the other; joined they are the reply, but in chats, where a block
    of code that is cut ends in one part and begins anew in the next. Empty: nothing to send."""
    known = CHANNEL_LIMITS.get(channel, _OTHER_CHANNELS)
    limit = known.characters
    if limit is None:
        return []
    if known.chat:
        return split_markdown(reply, limit, known.measure)
    parts: list[str] = []
    while reply:
        end = _part_end(reply, limit)
        parts.append(reply[:end])
        reply = reply[end:]
    return parts


def _part_end(text: str, limit: int) -> int:
    end = min(len(text), limit)
    while _json_bytes(text[:end]) > MAX_PART_BYTES:
        end = end * 3 // 4
    if end == len(text):
        return end
    # A cut in the first half would make parts too small to be worth a nice border.
    for border in ("\n\n", "\n", " "):
        found = text.rfind(border, end // 2, end)
        if found >= 0:
            return found + len(border)
    return end


def bound_reply(reply: str) -> tuple[str, bool]:
    """Return the reply as an event carries it, and whether it was cut."""
    cut = reply[:MAX_EVENT_REPLY_BYTES]
    while _json_bytes(cut) > MAX_EVENT_REPLY_BYTES:
        cut = cut[: len(cut) * 3 // 4]
    return cut, len(cut) < len(reply)


def storable(text: str) -> str:
    """Replace what a PostgreSQL text cannot hold."""
    return text.replace("\0", "�")


def _json_bytes(text: str) -> int:
    if len(text) * 6 <= MAX_EVENT_REPLY_BYTES:  # the longest that JSON makes of one character
        return len(text)
    return len(json.dumps(text, ensure_ascii=False).encode())
