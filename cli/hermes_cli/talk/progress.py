"""Turns the events of a session into what one message's person should see. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hermes_cli.api.shapes import Turn
from hermes_cli.api.sse import ServerEvent

_ENDINGS = frozenset({"turn.done", "turn.failed", "turn.dead"})
_MAX_EARLY = 512


@dataclass(frozen=True)
class Text:
    """The answer goes on."""

    text: str


@dataclass(frozen=True)
class Anew:
    """The text since the last tool is void; what follows stands instead of it."""


@dataclass(frozen=True)
class Tool:
    """A tool started or finished."""

    name: str
    finished: bool


@dataclass(frozen=True)
class Notice:
    """A sentence on what goes on."""

    text: str


@dataclass(frozen=True)
class Ended:
    """The turn is over; the stored answer is what counts, and has been shown."""

    turn: Turn


Action = Text | Anew | Tool | Notice | Ended


class Progress:
    """Follows the turn of one message.

    Pieces of a turn name the turn, not the message: those that come before the turn is known are kept until it is.
    A model call may begin again. While it repeats what was shown, nothing is shown; when it says something else, the
    text starts anew. A lost piece ends the text until the stored answer says what it should have been.
    """

    def __init__(self, message_id: str) -> None:
        self._message_id = message_id
        self.turn_id = ""
        self._early: list[dict[str, Any]] = []
        self._attempt = 0
        self._sequence = 0
        self._shown = ""
        self._said = ""
        self._broken = False
        self._tools: set[tuple[str, bool]] = set()

    def take(self, event: ServerEvent) -> tuple[list[Action], bool]:
        """Return what to show for an event, and whether the turn is over, so that its stored answer can be asked for."""
        body = event.body()
        if event.name == "delta":
            return self._delta(body), False
        if body.get("message_id") != self._message_id:
            return [], False
        actions = self._know(str(body.get("turn", "")))
        if event.name in ("tool.started", "tool.finished"):
            data = body.get("data")
            detail = data if isinstance(data, dict) else {}
            actions += self._tool(detail, event.name == "tool.finished")
        elif event.name == "conversation.compacted":
            actions.append(Notice("The conversation was compacted."))
        if event.name in _ENDINGS:
            actions += _files(body.get("data"))
        return actions, event.name in _ENDINGS

    def finish(self, turn: Turn) -> list[Action]:
        """Return what is missing of the stored answer, and the end."""
        rest: list[Action] = []
        if turn.reply != self._shown:
            if self._shown and turn.reply.startswith(self._shown):
                rest = [Text(turn.reply[len(self._shown) :])]
            else:
                rest = [*([Anew()] if self._shown else []), *([Text(turn.reply)] if turn.reply else [])]
        return [*rest, Ended(turn)]

    def _know(self, turn_id: str) -> list[Action]:
        if self.turn_id or not turn_id:
            return []
        self.turn_id = turn_id
        early, self._early = self._early, []
        return [action for body in early for action in self._delta(body)]

    def _delta(self, body: dict[str, Any]) -> list[Action]:
        if not self.turn_id:
            if len(self._early) < _MAX_EARLY:
                self._early.append(body)
            return []
        attempt, sequence = body.get("attempt"), body.get("sequence")
        if body.get("turn_id") != self.turn_id or not isinstance(attempt, int) or not isinstance(sequence, int):
            return []
        if attempt < self._attempt or (attempt == self._attempt and sequence <= self._sequence):
            return []
        if attempt > self._attempt:
            self._attempt, self._sequence = attempt, 0
            self._said, self._broken = "", False
        self._broken = self._broken or sequence > self._sequence + 1
        self._sequence = sequence
        return self._piece(str(body.get("kind", "")), body)

    def _piece(self, kind: str, body: dict[str, Any]) -> list[Action]:
        text = str(body.get("text", ""))
        match kind:
            case "text":
                return self._say(text)
            case "restart":
                self._said, self._broken = "", False
                return []
            case "notice":
                return [Notice(text)] if text else []
            case "tool_started" | "tool_finished":
                return self._tool(body, kind == "tool_finished")
        return []

    def _say(self, text: str) -> list[Action]:
        if self._broken or not text:
            return []
        self._said += text
        if self._shown.startswith(self._said):
            return []
        if self._said.startswith(self._shown):
            rest = self._said[len(self._shown) :]
            self._shown = self._said
            return [Text(rest)]
        self._shown = self._said
        return [Anew(), Text(self._said)]

    def _tool(self, body: dict[str, Any], finished: bool) -> list[Action]:
        name, call = str(body.get("tool", "")), str(body.get("call_id", ""))
        if (call, finished) in self._tools or not name:
            return []
        self._tools.add((call, finished))
        if not finished:
            # What the model said before its tools stands as it is; the answer is what comes after them.
            self._shown, self._said, self._broken = "", "", False
        return [Tool(name, finished)]


def _files(data: object) -> list[Action]:
    files = data.get("files") if isinstance(data, dict) else None
    names = [str(file.get("name", "")) for file in files if isinstance(file, dict)] if isinstance(files, list) else []
    return [Notice(f"The agent sends {name}; hermes sessions files lists and saves it.") for name in names]
