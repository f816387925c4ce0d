"""Text for the model: cleaned, and cut in the middle where it is too long. Pure."""

from __future__ import annotations

import re

MAX_OUTPUT_BYTES = 50_000
MAX_OUTPUT_LINES = 2_000
MAX_LINE_CHARACTERS = 2_000
HEAD_SHARE = 0.4

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def decode(data: bytes) -> str:
    """Return output as text: escapes and control characters gone, overprinted progress lines reduced to their last state."""
    text = data.decode("utf-8", "replace")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _CONTROLS.sub("", text)


def cut_lines(text: str) -> str:
    """Shorten each over-long line."""
    if len(text) <= MAX_LINE_CHARACTERS:
        return text
    return "\n".join(
        line if len(line) <= MAX_LINE_CHARACTERS else f"{line[:MAX_LINE_CHARACTERS]}… [{len(line)} characters]"
        for line in text.split("\n")
    )


def window(text: str, *, max_bytes: int = MAX_OUTPUT_BYTES, max_lines: int = MAX_OUTPUT_LINES, note: str = "") -> str:
    """Keep the first 40 % and the last 60 % of a text that is too long, by lines first and bytes after.

    `note` is added to the line that marks the gap, for example where the whole text is.
    """
    lines = text.split("\n")
    if len(lines) > max_lines:
        head = int(max_lines * HEAD_SHARE)
        tail = max_lines - head
        gap = _gap(f"{len(lines) - max_lines} lines", note)
        return _by_bytes("\n".join(lines[:head]), "\n".join(lines[-tail:]), max_bytes, gap, note)
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return text
    return _by_bytes(text, text, max_bytes, "", note, total=len(data))


def _by_bytes(head: str, tail: str, max_bytes: int, gap: str, note: str, *, total: int = 0) -> str:
    head_budget = int(max_bytes * HEAD_SHARE)
    tail_budget = max_bytes - head_budget
    head_data, tail_data = head.encode("utf-8", "replace"), tail.encode("utf-8", "replace")
    if not total and len(head_data) <= head_budget and len(tail_data) <= tail_budget:
        return f"{head}\n{gap}\n{tail}"
    first = head_data[:head_budget].decode("utf-8", "ignore")
    last = tail_data[-tail_budget:].decode("utf-8", "ignore")
    what = f"{total - max_bytes} bytes" if total else "much"
    return f"{first}\n{_gap(what, note)}\n{last}"


def _gap(what: str, note: str) -> str:
    return f"[... {what} cut here{'; ' + note if note else ''} ...]"
