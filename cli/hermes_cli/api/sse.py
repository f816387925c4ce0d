"""Server-sent events, read from bytes as they come. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

_MAX_EVENT_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class ServerEvent:
    """One event. `id` is empty for events that are not kept; `name` is `message` when the server names none."""

    name: str
    data: str
    id: str = ""

    def body(self) -> dict[str, Any]:
        """Return the data as an object; empty when it is none."""
        try:
            found = json.loads(self.data)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


class EventReader:
    """Puts bytes together to events. `last_id` is what a reconnect sends.

    Lines end with CR, LF or both and with nothing else: JSON holds other characters that Python takes for line ends.
    """

    def __init__(self, last_id: str = "") -> None:
        self.last_id = last_id
        self._rest = b""
        self._name = ""
        self._data: list[str] = []
        self._number = ""
        self._size = 0

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """Take the next bytes; returns the events that they complete. Raises ValueError when an event is too large."""
        *lines, self._rest = (self._rest + piece).replace(b"\r\n", b"\n").split(b"\n")
        if self._size + len(self._rest) > _MAX_EVENT_BYTES:
            raise ValueError("an event is larger than 4 MiB")
        return [event for line in lines if (event := self._line(line.rstrip(b"\r").decode(errors="replace"))) is not None]

    def _line(self, line: str) -> ServerEvent | None:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        self._size += len(line)
        if self._size > _MAX_EVENT_BYTES:
            raise ValueError("an event is larger than 4 MiB")
        if field == "event":
            self._name = value
        elif field == "data":
            self._data.append(value)
        elif field == "id" and "\0" not in value:
            self._number = self.last_id = value
        return None

    def _dispatch(self) -> ServerEvent | None:
        event = ServerEvent(self._name or "message", "\n".join(self._data), self._number) if self._data else None
        self._name, self._data, self._number, self._size = "", [], "", 0
        return event
