"""Text of others, made fit for a terminal. Pure."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Take out what a terminal would obey or a reader be misled by: escape sequences, and marks that turn text around."""
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


def one_line(text: str, most: int = 60) -> str:
    """Return the beginning of a text as one line of at most `most` characters."""
    line = " ".join(printable(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def ago(seconds: float) -> str:
    """Return a time that has passed, in its largest unit: `5 s`, `3 min`, `2 h`, `4 d`."""
    seconds = max(0.0, seconds)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def dollars(amount: str, unpriced: int = 0) -> str:
    """Return an amount as people write it; `≥` when some calls have no known price."""
    try:
        value = float(amount)
    except ValueError:
        return amount[:20]
    shown = f"${value:.2f}" if value >= 1 or value == 0 else f"${value:.4f}"
    return f"≥ {shown}" if unpriced else shown
