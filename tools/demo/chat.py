"""One conversation over the gateway's OpenAI-compatible API, printed as it streams."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx

_DIM, _BOLD, _PLAIN = "\033[2m", "\033[1m", "\033[0m"


@dataclass(frozen=True)
class ServerEvent:
    """One server-sent event; `name` is empty for plain data."""

    name: str
    data: str


async def server_events(response: httpx.Response) -> AsyncIterator[ServerEvent]:
    """Read a stream of server-sent events; comments are passed over."""
    name, data = "", list[str]()
    async for line in response.aiter_lines():
        if line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            yield ServerEvent(name, "\n".join(data))
            name, data = "", []


class Conversation:
    """A conversation with one agent. The session id makes the next message continue where this one ended."""

    def __init__(self, url: str, api_key: str, *, profile: str = "default", session: str, color: bool | None = None) -> None:
        self._client = httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {api_key}"}, timeout=None)
        self._profile = profile
        self._session = session
        self._color = sys.stdout.isatty() if color is None else color

    async def close(self) -> None:
        """Close the connection."""
        await self._client.aclose()

    async def say(self, text: str) -> str:
        """Send a message, print the answer while it streams, return it whole. Raises httpx.HTTPStatusError."""
        started = time.monotonic()
        first: float | None = None
        answer = ""
        body = {"model": self._profile, "stream": True, "messages": [{"role": "user", "content": text}]}
        headers = {"X-Hermes-Session-Id": self._session}
        async with self._client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as response:
            if response.is_error:
                await response.aread()
            response.raise_for_status()
            async for event in server_events(response):
                if event.data == "[DONE]":
                    break
                if event.name == "hermes.tool.progress":
                    self._tool(json.loads(event.data)["hermes"]["tool"])
                    continue
                piece = _content(json.loads(event.data))
                if piece and first is None:
                    first = time.monotonic() - started
                answer += piece
                print(piece, end="", flush=True)
        total = time.monotonic() - started
        self._line(f"\n[first word after {first or total:.2f} s, done after {total:.2f} s]", _DIM)
        return answer

    def _tool(self, progress: dict[str, object]) -> None:
        self._line(f"  [{progress['tool']} {progress['state']}]", _DIM)

    def _line(self, text: str, style: str) -> None:
        print(f"{style}{text}{_PLAIN}" if self._color else text, flush=True)

    def ask(self, text: str) -> None:
        """Print what the person says."""
        self._line(f"\nyou> {text}", _BOLD)


def _content(chunk: dict[str, object]) -> str:
    choices = chunk.get("choices")
    if not isinstance(choices, list) or not choices:
        return ""
    return choices[0].get("delta", {}).get("content") or ""
