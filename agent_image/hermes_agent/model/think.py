"""Thinking that a model wrote into its text as `<think>...</think>`: taken out while it streams. Pure but for its state.

A tag counts at the start of a line only, so that a text about tags stays whole.
"""

from __future__ import annotations

import re

_NAMES = "think|thinking|thought|reasoning"
_OPEN = re.compile(rf"(?:^|(?<=\n))[ \t]*<(?:{_NAMES})>", re.IGNORECASE)
_CLOSE = re.compile(rf"</(?:{_NAMES})>", re.IGNORECASE)
_ORPHAN = re.compile(rf"(?:^|(?<=\n))[ \t]*</(?:{_NAMES})>", re.IGNORECASE)
_MAYBE = re.compile(r"[ \t]*<?/?[a-zA-Z]*>?[ \t]*\Z")
_LONGEST_TAG = 24


class ThinkSplitter:
    """Splits pieces of text into what is said and what is thought; holds back what may become a tag."""

    def __init__(self) -> None:
        self.thinking = False
        self._held = ""
        self._line_start = True
        self._after_tag = False

    def feed(self, piece: str) -> list[tuple[str, str]]:
        """Return (kind, text) pairs: `text`, `thought`, or `orphan`: what came as text so far was thinking."""
        if not (self.thinking or self._held or self._line_start) and "<" not in piece:
            self._line_start = piece.endswith("\n")
            return [("text", piece)] if piece else []
        return self._split(self._held + piece, end=False)

    def end(self) -> list[tuple[str, str]]:
        """Return what was held back."""
        return self._split(self._held, end=True)

    def _split(self, text: str, *, end: bool) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        self._held = ""
        while text:
            if self._after_tag:
                text = text.lstrip()
                self._after_tag = not text
                continue
            if self.thinking:
                match = _CLOSE.search(text)
                if match is None:
                    keep = 0 if end else _tail(text)
                    found += [("thought", text[: len(text) - keep])] if len(text) > keep else []
                    self._held = text[len(text) - keep :] if keep else ""
                    break
                found += [("thought", text[: match.start()])] if match.start() else []
                text, self.thinking, self._line_start, self._after_tag = text[match.end() :], False, True, True
                continue
            opened, orphan = self._first(_OPEN, text), self._first(_ORPHAN, text)
            match = min((m for m in (opened, orphan) if m), key=lambda m: m.start(), default=None)
            if match is None:
                keep = 0 if end else self._maybe(text)
                said = text[: len(text) - keep]
                if said:
                    found.append(("text", said))
                    self._line_start = said.endswith("\n")
                self._held = text[len(text) - keep :] if keep else ""
                break
            if match.start():
                found.append(("text", text[: match.start()]))
            if match is orphan:
                found.append(("orphan", ""))
            self.thinking, self._after_tag = match is opened, match is orphan
            text, self._line_start = text[match.end() :], True
        return found

    def _first(self, pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
        if self._line_start:
            return pattern.search(text)
        return pattern.search(text, text.index("\n") + 1) if "\n" in text else None

    def _maybe(self, text: str) -> int:
        """Return how many characters at the end may be the beginning of a tag."""
        start = text.rfind("\n") + 1
        if start == 0 and not self._line_start:
            return 0
        line = text[start:]
        return len(line) if len(line) <= _LONGEST_TAG and "<" in line and _MAYBE.fullmatch(line) else 0


def _tail(text: str) -> int:
    start = text.rfind("<", max(0, len(text) - _LONGEST_TAG))
    return len(text) - start if start >= 0 and ">" not in text[start:] else 0
