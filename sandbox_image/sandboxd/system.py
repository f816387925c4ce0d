"""Calls to the operating system that may fail quietly, and the log."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


def quietly(call: Callable[..., Any], *args: Any) -> Any:
    """Call for the effect; a file, process or descriptor that is gone already is no error. None on failure."""
    try:
        return call(*args)
    except OSError:
        return None


def log(event: str, **fields: Any) -> None:
    """One JSON line on stderr; a log nobody reads must not stop the daemon."""
    fields["event"] = event
    quietly(os.write, 2, json.dumps(fields).encode() + b"\n")


def read_text(path: str) -> str:
    """A small file of /proc or /sys; empty when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
