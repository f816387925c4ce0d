"""Splits Markdown that is still being written into blocks that are complete, and the one that is not. Pure."""

from __future__ import annotations

import re

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$")
_LONGEST_BLOCK_CHARACTERS = 8000


class Blocks:
    """A block ends at an empty line outside of fenced code, so that no piece of it changes how another is shown."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._partial = ""
        self._fence = ""

    @property
    def unfinished(self) -> str:
        """What has come since the last complete block."""
        return "\n".join([*self._lines, self._partial]) if self._lines else self._partial

    def feed(self, text: str) -> list[str]:
        """Take a piece of text; returns the blocks that it completes."""
        done: list[str] = []
        *lines, self._partial = (self._partial + text).split("\n")
        for line in lines:
            done += self._line(line)
        return done

    def drop(self) -> str:
        """Forget the unfinished block and return it."""
        dropped = self.unfinished
        self._lines, self._size, self._partial, self._fence = [], 0, "", ""
        return dropped

    def _line(self, line: str) -> list[str]:
        self._note_fence(line)
        if not line.strip() and not self._fence:
            return self._cut()
        self._lines.append(line)
        self._size += len(line) + 1
        # Code without end would be shown only when it ends.
        if self._size > _LONGEST_BLOCK_CHARACTERS and not self._fence:
            return self._cut()
        return []

    def _note_fence(self, line: str) -> None:
        match = _FENCE.match(line)
        if match is None:
            return
        mark, rest = match.groups()
        if not self._fence:
            self._fence = mark
        elif mark[0] == self._fence[0] and len(mark) >= len(self._fence) and not rest.strip():
            self._fence = ""

    def _cut(self) -> list[str]:
        block, self._lines, self._size = "\n".join(self._lines), [], 0
        return [block] if block.strip() else []
