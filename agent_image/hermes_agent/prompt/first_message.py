"""What changes from message to message rides in the message. Pure: the same inbound gives the same bytes for ever."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from hermes_agent.model.hygiene import clean_text
from hermes_contracts.conversation import Message, Role, TextPart
from hermes_contracts.envelopes import Inbound

STEERED = "[steered]"
PLATFORM = "[from the platform, not from the user]"
"""Begins what the platform itself has to say, so that nobody takes it for the person's words."""
NEW_GOAL = "[new goal]"
"""How messages begin that come into a running turn; the prompt explains both."""

MAX_SENDER_CHARACTERS = 64
_NOT_A_NAME = re.compile(r"[\[\]<>\s]+")


def first_message(inbound: Inbound, *, stamp_time: bool = False, note: str = "") -> Message:
    """Return the message that the transcript keeps for `inbound`: its overlay, its text, its pictures.

    The overlay is a first line `[from NAME]` when the channel says who wrote, and with `stamp_time` (for agents without a
    terminal, who cannot ask for it) the time to the minute in UTC. `note` is what the platform has to say besides.
    """
    notes = [note for note in (_sender(inbound.sender), _time(inbound.received_at) if stamp_time else "") if note]
    overlay = (f"{note}\n" if note else "") + (f"[{', '.join(notes)}]\n" if notes else "")
    text = overlay + clean_text(inbound.text)
    parts = (TextPart(text=text),) if text or not inbound.images else ()
    return Message(role=Role.USER, parts=(*parts, *inbound.images))


def _sender(name: str) -> str:
    plain = _NOT_A_NAME.sub(" ", clean_text(name)).strip()[:MAX_SENDER_CHARACTERS].strip()
    return f"from {plain}" if plain else ""


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%a %Y-%m-%d %H:%M} UTC"
