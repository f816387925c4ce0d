"""What a person says into a running turn, as rows of the transcript. Pure.

Each row carries a short mark of the command that brought it: an agent that died between writing the row and finishing the
command finds the mark again and does not say the same thing twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from hermes_agent.loop.transcript import Transcript
from hermes_agent.model.hygiene import clean_text
from hermes_agent.prompt.first_message import STEERED
from hermes_agent.stop import Note
from hermes_contracts.conversation import Message

NEW_GOAL = "[new goal]"
INTERRUPTED = "(Interrupted: the user gave a new goal.)"
_LOOK_BACK = 400
"""Newest rows in which a mark is looked for: a command is taken up again within moments."""


def mark(note: Note) -> str:
    """Return eight characters that stand for the note's command."""
    return hashlib.sha256(note.command_id.encode()).hexdigest()[:8]


def steering(notes: Sequence[Note]) -> Message:
    """Return the row that carries words into the turn."""
    return Message.user("\n\n".join(f"{STEERED} {mark(note)}\n{clean_text(note.text)}" for note in notes))


def new_goal(note: Note) -> tuple[Message, Message]:
    """Return the rows that turn the work to a new goal: the old one is closed, the new one asked."""
    return Message.assistant(INTERRUPTED), Message.user(f"{NEW_GOAL} {mark(note)}\n{clean_text(note.text)}")


def is_stored(transcript: Transcript, note: Note) -> bool:
    """Tell whether an earlier life of this agent wrote the note down already."""
    marks = tuple(f"{word} {mark(note)}".encode() for word in (STEERED, NEW_GOAL))
    return any(word in row for row in transcript.messages[-_LOOK_BACK:] for word in marks)


def answers_before(transcript: Transcript) -> list[str]:
    """Return whole answers of the running turn after which the person said more, oldest first: they belong to the reply."""
    found: list[str] = []
    steered = False
    for row in reversed(transcript.messages[-_LOOK_BACK:]):
        message = Message.model_validate(json.loads(row))
        text = message.text()
        if message.role == "user":
            if not text.startswith(STEERED):
                break
            steered = True
            continue
        if steered and message.role == "assistant" and not message.tool_calls() and text:
            found.append(text)
        steered = False
    return found[::-1]
