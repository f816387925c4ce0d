"""What an answer looks like while it is written. Pure."""

from __future__ import annotations

from hermes_contracts.envelopes import Delta

_CURSOR = " …"
_MAX_KEPT = 20_000


class GrowingAnswer:
    """Takes the pieces of one turn as they happen; a new attempt, a restart or a tool begins the text anew."""

    def __init__(self, max_characters: int) -> None:
        self._max_characters = max_characters
        self._attempt = 0
        self._heard = 0
        """Number of the last piece of this attempt."""
        self._gap = False
        """Whether pieces of the text are missing."""
        self._text = ""
        self._line = ""

    def take(self, delta: Delta) -> None:
        """Take a piece; pieces of an attempt that is over are not looked at."""
        if delta.attempt < self._attempt:
            return
        if delta.attempt > self._attempt:
            self._attempt, self._heard, self._text, self._line = delta.attempt, 0, "", ""
            self._gap = False
        self._gap = self._gap or delta.sequence != self._heard + 1
        self._heard = delta.sequence
        match delta.kind:
            case "text":
                self._text = (self._text + delta.text)[:_MAX_KEPT]
                self._line = ""
            case "restart":
                self._text, self._gap = "", False
            case "tool_started":
                self._gap, self._text, self._line = False, "", f"_Using {delta.tool[:64]}_" if delta.tool else ""
            case "tool_finished":
                self._line = "_Thinking_"
            case "notice":
                self._line = f"_{delta.text[:200]}_"
            case "reasoning":
                self._line = self._line or "_Thinking_"

    def shown(self) -> str:
        """Return the Markdown to show; empty when there is nothing yet."""
        text = self._text.strip()[: self._max_characters]
        if text and self._gap:
            text = f"… {text}"
        if not text and not self._line:
            return ""
        parts = [part for part in (text, self._line) if part]
        return "\n\n".join(parts) + _CURSOR
