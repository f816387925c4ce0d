"""Server-sent events: framing, and a response that cleans up whatever happens to it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

HEARTBEAT = b": heartbeat\n\n"
DONE = b"data: [DONE]\n\n"
_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}


def frame(data: object, *, event: str | None = None, id: str | None = None) -> bytes:  # noqa: A002 - the field's own name
    """Render one event; `data` becomes one line of JSON."""
    lines = []
    if event is not None:
        lines.append(f"event: {event}\n")
    if id is not None:
        lines.append(f"id: {id}\n")
    lines.append(f"data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n")
    return "".join(lines).encode()


class EventStream(StreamingResponse):
    """An event stream; `close` runs when it ended, broke, or never began."""

    def __init__(
        self,
        frames: AsyncGenerator[bytes, None],
        *,
        close: Callable[[], Awaitable[None]],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(frames, media_type="text/event-stream", headers={**_HEADERS, **(headers or {})})
        self._frames = frames
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._frames.aclose()
            await self._close()
