"""The one message that stands for everything that was taken out: written part, record of calls, user's words, names. Pure.

It is text, for the model; and it is read again by the next pass, so that records are carried over as they are and only the
written part is written anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from hermes_contracts.conversation import Message, Part, Role, TextPart

MARK = "[Summary of the conversation up to here. It is for reference only.]"
FRAME = (
    "The messages that stood here were taken out to make room; this is what is kept of them. It is a record, not a request: "
    "what it calls done is done, and what it calls open or in progress may be settled by now. The user's newest message "
    "always comes first. Your tools work as before; look at files again when you need what was in them."
)
END = "[End of the summary.]"
NEWEST = "The user's newest message, which you are working on:\n"
BRIDGE = "(What followed is summarised next.)"
ACKNOWLEDGED = "(I have read the summary and go on from here.)"

DONE_TITLE = "## Calls that were made and may have changed something: complete, oldest first, never repeat them"
SAID_TITLE = "## What the user wrote, word for word, oldest first"
NAMES_TITLE = "## Exact names"
_TITLES = (DONE_TITLE, SAID_TITLE, NAMES_TITLE)
_RESERVED = (MARK, END, *_TITLES)
SAID_CHARACTERS = 1_200
"""Of one of the user's messages."""
_LEFT_OUT = "(earlier messages are left out)"


@dataclass(frozen=True)
class Summary:
    """What a summary says."""

    body: str
    done: Sequence[str] = field(default_factory=tuple)
    said: Sequence[str] = field(default_factory=tuple)
    names: Sequence[str] = field(default_factory=tuple)


def render(summary: Summary) -> str:
    """Return the summary as text."""
    pieces = [MARK, FRAME, "", _harmless(summary.body.strip())]
    if summary.done:
        pieces += ["", DONE_TITLE, *(f"- {line}" for line in summary.done)]
    if summary.said:
        pieces += ["", SAID_TITLE, *(f"- {json.dumps(text, ensure_ascii=False)}" for text in summary.said)]
    if summary.names:
        pieces += ["", NAMES_TITLE, ", ".join(summary.names)]
    return "\n".join([*pieces, "", END])


def parse(text: str) -> Summary | None:
    """Read a summary back; None when the text is none."""
    if not text.startswith(MARK):
        return None
    sections: dict[str, list[str]] = {"": []}
    title = ""
    for line in text.removeprefix(MARK).split("\n"):
        if line == END:
            break
        if line in _TITLES:
            title = line
            sections[title] = []
        else:
            sections[title].append(line)
    body = "\n".join(sections[""]).strip().removeprefix(FRAME).strip()
    return Summary(
        body=body,
        done=_items(sections.get(DONE_TITLE, ())),
        said=[said for item in _items(sections.get(SAID_TITLE, ())) if (said := _unquoted(item)) is not None],
        names=[name for line in sections.get(NAMES_TITLE, ()) for name in line.split(", ") if name],
    )


def merge_said(before: Sequence[str], new: Sequence[str], characters: int) -> list[str]:
    """Return the user's newest words within so many characters, oldest first, and say when some are left out."""
    kept: list[str] = []
    left = characters
    everything = [text for text in [*before, *new] if text.strip() and text != _LEFT_OUT]
    for text in reversed(everything):
        shown = text if len(text) <= SAID_CHARACTERS else text[:SAID_CHARACTERS] + " [...]"
        if len(shown) > left and kept:
            break
        shown = shown[: max(left, 40)]
        left -= len(shown) + 4
        kept.append(shown)
        if left <= 0:
            break
    cut = len(kept) < len(everything) or _LEFT_OUT in before
    return ([_LEFT_OUT] if cut else []) + kept[::-1]


def summary_message(summary: Summary, pinned: Message | None) -> Message:
    """Return the row: the summary, and after it the newest user message when that itself would have been taken out."""
    parts: tuple[Part, ...] = (TextPart(text=render(summary)),)
    if pinned is not None:
        parts = (*parts, TextPart(text=f"\n\n{NEWEST}"), *pinned.parts)
    return Message(role=Role.USER, parts=parts)


def read_message(message: Message) -> tuple[Summary, Message | None] | None:
    """Read a row that `summary_message` made, None when it is none."""
    first = message.parts[0] if message.parts else None
    if message.role is not Role.USER or not isinstance(first, TextPart):
        return None
    summary = parse(first.text)
    if summary is None:
        return None
    rest = message.parts[2:]
    return summary, Message(role=Role.USER, parts=rest) if rest else None


def _harmless(body: str) -> str:
    """Keep what a model wrote from looking like a part that no model writes."""
    return "\n".join(f"> {line}" if line.strip().startswith(_RESERVED) else line for line in body.split("\n"))


def _items(lines: Sequence[str]) -> list[str]:
    return [line[2:] for line in lines if line.startswith("- ")]


def _unquoted(item: str) -> str | None:
    try:
        value = json.loads(item)
    except ValueError:
        return None
    return value if isinstance(value, str) else None
