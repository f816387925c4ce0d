"""Cuts Markdown into parts that a chat takes. A block of code that is cut is closed and opened again. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

Measure = Callable[[str], int]
"""Length of a text in a platform's own unit."""

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)$")
_MAX_OPENING = 40


def utf16_units(text: str) -> int:
    """Return the length as Telegram counts it."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut_utf16(text: str, most: int) -> str:
    """Return the beginning of a text that is no longer than this as Telegram counts; no character is cut in two."""
    return text.encode("utf-16-le", "replace")[: 2 * most].decode("utf-16-le", "ignore")


def split_markdown(text: str, limit: int, measure: Measure = len) -> list[str]:
    """Return parts of at most `limit` (100 or more) units each, none of them empty, whose fences are balanced."""
    splitter = _Splitter(limit, measure)
    for line in text.split("\n"):
        for number, piece in enumerate(_pieces(line, limit - 2 * _MAX_OPENING, measure)):
            if number:
                splitter.cut_line()
            splitter.add(piece)
    return splitter.end()


class _Splitter:
    def __init__(self, limit: int, measure: Measure) -> None:
        self._limit = limit
        self._measure = measure
        self._parts: list[str] = []
        self._lines: list[str] = []
        self._border: int | None = None
        """Index of the last empty line outside of code, where a cut looks best."""
        self._opening: str | None = None
        """First line of the block of code that is open."""

    def add(self, line: str) -> None:
        opening = _fence_after(self._opening, line)
        if self._lines and self._size([*self._lines, line], opening) > self._limit:
            self._cut()
            if self._lines and self._size([*self._lines, line], opening) > self._limit:
                self._close()
        if not line.strip() and opening is None:
            self._border = len(self._lines)
        self._lines.append(line)
        self._opening = opening

    def cut_line(self) -> None:
        """End a part within a line, so that no new line gets into it."""
        self._close()

    def end(self) -> list[str]:
        self._close()
        return self._parts

    def _size(self, lines: list[str], opening: str | None) -> int:
        return self._measure("\n".join(lines)) + (self._measure("\n" + _closing(opening)) if opening is not None else 0)

    def _cut(self) -> None:
        """End a part at its last empty line unless that makes it less than half full."""
        if self._border is None or self._size(self._lines[: self._border], None) * 2 < self._limit:
            self._close()
            return
        rest = self._lines[self._border + 1 :]
        self._emit(self._lines[: self._border])
        self._lines, self._border = rest, None

    def _close(self) -> None:
        """End a part here."""
        if self._opening is None:
            self._emit(self._lines)
            self._lines = []
        else:
            self._emit([*self._lines, _closing(self._opening)])
            self._lines = [self._opening]
        self._border = None

    def _emit(self, lines: list[str]) -> None:
        part = "\n".join(lines).rstrip()
        if part.strip():
            self._parts.append(part)


def _fence_after(opening: str | None, line: str) -> str | None:
    """Return the first line of the block of code that is open after a line."""
    found = _FENCE.fullmatch(line)
    if opening is None:
        if found is None:
            return None
        # What is said of the code may be longer than a part.
        return line if len(line) <= _MAX_OPENING else found.group(1)[: _MAX_OPENING // 2]
    marker = _closing(opening)
    closes = found is not None and found.group(1).startswith(marker) and not found.group(2).strip()
    return None if closes else opening


def _closing(opening: str) -> str:
    found = _FENCE.fullmatch(opening)
    return found.group(1) if found is not None else opening.strip()


def _pieces(line: str, most: int, measure: Measure) -> Iterator[str]:
    """Cut a line that is too long, at a space if there is one in its second half."""
    while measure(line) > most:
        end = most
        while measure(line[:end]) > most:
            end -= max(1, (measure(line[:end]) - most) // 2)
        space = line.rfind(" ", end // 2, end)
        end = space + 1 if space > 0 else end
        yield line[:end]
        line = line[end:]
    yield line
