"""Finds the text a model meant to replace, although it copied it imperfectly. Pure.

Strategies go from exact to loose; the first that finds anything decides, and it must find exactly one place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "\u00a0": " ", "…": "..."})
_SPACES = re.compile(r"[ \t]+")


class NoMatch(Exception):
    """The text is not there, or there more than once; the message says which and what to do."""


@dataclass(frozen=True)
class Span:
    """A place in the text, as character offsets; `indents` says for each indentation of the model's what it is here."""

    start: int
    end: int
    indents: tuple[tuple[str, str], ...] = ()


def replace(text: str, old: str, new: str, *, replace_all: bool) -> tuple[str, int, str]:
    """Return the new text, how many places changed, and the strategy that found them. Raises NoMatch."""
    if not old:
        raise NoMatch("old_string: empty; to make a new file use write_file")
    if old == new:
        raise NoMatch("old_string and new_string are the same")
    for name, find in _STRATEGIES:
        spans = list(find(text, old))
        if not spans:
            continue
        if len(spans) > 1 and not replace_all:
            raise NoMatch(
                f"old_string: found {len(spans)} times; add lines around it until it is unique, or set replace_all: true"
            )
        for span in reversed(spans):
            text = text[: span.start] + _reindent(new, span) + text[span.end :]
        return text, len(spans), name
    raise NoMatch("old_string: not found in the file; read the file again and copy the text exactly")


def _exact(text: str, old: str) -> Iterator[Span]:
    start = text.find(old)
    while start >= 0:
        yield Span(start, start + len(old))
        start = text.find(old, start + len(old))


def _unescaped(text: str, old: str) -> Iterator[Span]:
    plain = old.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"').replace("\\'", "'")
    return _exact(text, plain) if plain != old else iter(())


def _by_lines(normalise: Callable[[str], str], *, reindent: bool = False) -> Callable[[str, str], Iterator[Span]]:
    def find(text: str, old: str) -> Iterator[Span]:
        wanted_lines = old.split("\n")
        if wanted_lines[-1] == "" and len(wanted_lines) > 1:
            wanted_lines.pop()
        wanted = [normalise(line) for line in wanted_lines]
        if not any(wanted):
            return
        lines = text.split("\n")
        normal = [normalise(line) for line in lines]
        starts = _line_starts(lines)
        index = 0
        while index + len(wanted) <= len(lines):
            if normal[index : index + len(wanted)] != wanted:
                index += 1
                continue
            last = index + len(wanted) - 1
            end = starts[last] + len(lines[last])
            if old.endswith("\n") and last + 1 < len(lines):
                end += 1
            indents = _indents(wanted_lines, lines[index : last + 1]) if reindent else ()
            yield Span(starts[index], end, indents)
            index = last + 1

    return find


def _line_starts(lines: list[str]) -> list[int]:
    starts, position = [], 0
    for line in lines:
        starts.append(position)
        position += len(line) + 1
    return starts


def _indents(wanted: list[str], found: list[str]) -> tuple[tuple[str, str], ...]:
    pairs: dict[str, str] = {}
    for ours, theirs in zip(wanted, found, strict=True):
        if ours.strip():
            pairs.setdefault(_indent(ours), _indent(theirs))
    return tuple(pairs.items())


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _reindent(new: str, span: Span) -> str:
    known = dict(span.indents)
    if all(ours == theirs for ours, theirs in known.items()):
        return new
    return "\n".join(_here(line, known) if line.strip() else line for line in new.split("\n"))


def _here(line: str, known: dict[str, str]) -> str:
    indent = _indent(line)
    if indent not in known:
        # Deeper than anything the model copied: keep what is beyond the nearest indentation that it did copy.
        nearest = max((ours for ours in known if indent.startswith(ours)), key=len, default=None)
        if nearest is None:
            return line
        return known[nearest] + line[len(nearest) :]
    return known[indent] + line[len(indent) :]


def _folded(line: str) -> str:
    return _SPACES.sub(" ", line.translate(_QUOTES)).strip()


def _anchored(text: str, old: str) -> Iterator[Span]:
    wanted = [line.strip() for line in old.strip("\n").split("\n")]
    if len(wanted) < 4:
        return
    lines = text.split("\n")
    starts = _line_starts(lines)
    for index in range(len(lines) - len(wanted) + 1):
        last = index + len(wanted) - 1
        if lines[index].strip() != wanted[0] or lines[last].strip() != wanted[-1]:
            continue
        same = sum(a.strip() == b for a, b in zip(lines[index : last + 1], wanted, strict=True))
        if same * 5 >= len(wanted) * 4:
            yield Span(starts[index], starts[last] + len(lines[last]))


_STRATEGIES: tuple[tuple[str, Callable[[str, str], Iterator[Span]]], ...] = (
    ("exact", _exact),
    ("trailing whitespace ignored", _by_lines(str.rstrip)),
    ("indentation ignored", _by_lines(str.strip, reindent=True)),
    ("spaces and quotes folded", _by_lines(_folded, reindent=True)),
    ("escapes resolved", _unescaped),
    ("first and last line and four fifths of the rest", _anchored),
)
