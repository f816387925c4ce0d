"""Buttons: a message with choices is written in Slack's blocks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hermes_contracts.envelopes import Choice

BLOCK = "hermes_choices"
_SECTION_CHARACTERS = 3_000
"""Of one block of text; `chat.postMessage` itself takes more."""


def blocks_of(text: str, choices: Sequence[Choice]) -> list[dict[str, Any]]:
    """Return the blocks of rendered text with buttons below; none where there are no choices, since text stands alone."""
    if not choices:
        return []
    pieces = [text[start : start + _SECTION_CHARACTERS] for start in range(0, len(text), _SECTION_CHARACTERS)]
    sections = [{"type": "section", "text": {"type": "mrkdwn", "text": piece}} for piece in pieces]
    buttons = [
        {
            "type": "button",
            "action_id": f"choice-{number}",
            "text": {"type": "plain_text", "text": choice.label},
            "value": choice.command,
        }
        for number, choice in enumerate(choices)
    ]
    return [*sections, {"type": "actions", "block_id": BLOCK, "elements": buttons}]
