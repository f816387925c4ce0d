"""The multi-file patch format that models know as V4A. Pure: text in, changes out.

*** Begin Patch
*** Update File: path        (then optionally: *** Move to: path)
@@ a line before the change, optional
 context
-old
+new
*** Add File: path           (every line begins with +)
*** Delete File: path
*** End Patch
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from hermes_agent.tools.fuzzy import NoMatch, replace


class PatchError(Exception):
    """The patch cannot be read or does not fit; the text names the file and the line."""


@dataclass
class Hunk:
    """Lines to find and what takes their place. `anchors` are lines that come before, in order."""

    anchors: list[str] = field(default_factory=list)
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)


@dataclass
class Change:
    """What happens to one file."""

    kind: Literal["add", "update", "delete"]
    path: str
    move_to: str | None = None
    hunks: list[Hunk] = field(default_factory=list)
    content: list[str] = field(default_factory=list)


_HEADERS: tuple[tuple[str, Literal["add", "update", "delete"]], ...] = (
    ("*** Add File: ", "add"),
    ("*** Update File: ", "update"),
    ("*** Delete File: ", "delete"),
)


def parse(text: str) -> list[Change]:
    """Read a patch. Raises PatchError."""
    changes: list[Change] = []
    for number, line in _body(text):
        kind = next(((kind, line[len(head) :].strip()) for head, kind in _HEADERS if line.startswith(head)), None)
        if kind:
            changes.append(Change(*kind))
        elif not changes:
            if line.strip():
                raise PatchError(f"line {number}: expected *** Add File, *** Update File or *** Delete File")
        else:
            _take(changes[-1], line, number)
    if not changes:
        raise PatchError("the patch names no file")
    paths = [change.path for change in changes]
    for change in changes:
        if not change.path or paths.count(change.path) > 1:
            raise PatchError(f"{change.path or 'a file'}: every file must be named once, with all its hunks below")
        if change.kind == "update" and not change.hunks and not change.move_to:
            raise PatchError(f"{change.path}: no changes given")
    return changes


def _body(text: str) -> Iterator[tuple[int, str]]:
    lines = text.replace("\r\n", "\n").split("\n")
    start = next((n for n, line in enumerate(lines) if line.strip() == "*** Begin Patch"), None)
    if start is None:
        raise PatchError("the patch must begin with *** Begin Patch")
    for number in range(start + 1, len(lines)):
        if lines[number].strip() == "*** End Patch":
            return
        yield number + 1, lines[number]
    raise PatchError("the patch must end with *** End Patch")


def _take(change: Change, line: str, number: int) -> None:
    if change.kind == "add":
        if line.startswith("+"):
            change.content.append(line[1:])
        elif line.strip():
            raise PatchError(f"line {number}: every line of a new file must begin with +")
    elif change.kind == "delete":
        if line.strip():
            raise PatchError(f"line {number}: nothing may follow *** Delete File")
    elif line.startswith("*** Move to: ") and not change.hunks:
        change.move_to = line[len("*** Move to: ") :].strip()
    elif line.strip() != "*** End of File":
        _take_hunk(change, line, number)


def _take_hunk(change: Change, line: str, number: int) -> None:
    if line.startswith("@@"):
        anchor = line[2:].strip()
        if not change.hunks or change.hunks[-1].old or change.hunks[-1].new:
            change.hunks.append(Hunk())
        if anchor:
            change.hunks[-1].anchors.append(anchor)
        return
    if not change.hunks:
        change.hunks.append(Hunk())
    hunk = change.hunks[-1]
    sign, rest = line[:1], line[1:]
    if sign not in {"", " ", "+", "-"}:
        raise PatchError(f"line {number}: begin lines with a space (context), - (old) or + (new)")
    if sign != "+":
        hunk.old.append(rest)
    if sign != "-":
        hunk.new.append(rest)


def apply_update(change: Change, text: str) -> str:
    """Return the file's new text. Raises PatchError when a hunk fits nowhere or in several places."""
    position = 0
    for number, hunk in enumerate(change.hunks, 1):
        for anchor in hunk.anchors:
            found = _find_anchor(text, anchor, position)
            if found is None:
                raise PatchError(f"{change.path}: hunk {number}: no line {anchor!r} after the hunk before")
            position = found
        old, new = _trimmed(hunk)
        if not old:
            text = _insert(text, "\n".join(new), position, at_anchor=bool(hunk.anchors))
            continue
        head, tail = text[:position], text[position:]
        try:
            changed, _, _ = replace(tail, "\n".join(old), "\n".join(new), replace_all=False)
        except NoMatch as error:
            raise PatchError(f"{change.path}: hunk {number}: {error}") from error
        text = head + changed
    return text


def _trimmed(hunk: Hunk) -> tuple[list[str], list[str]]:
    old, new = list(hunk.old), list(hunk.new)
    while old and new and old[-1] == "" and new[-1] == "":
        old.pop()
        new.pop()
    return old, new


def _find_anchor(text: str, anchor: str, position: int) -> int | None:
    offset = 0
    for line in text.split("\n"):
        if offset >= position and line.strip() == anchor.strip():
            return offset + len(line) + 1
        offset += len(line) + 1
    return None


def _insert(text: str, new: str, position: int, *, at_anchor: bool) -> str:
    if at_anchor:
        position = min(position, len(text))
        return text[:position] + new + "\n" + text[position:]
    separator = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{separator}{new}\n"
