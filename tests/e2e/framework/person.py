"""Somebody who talks to an agent over the API, as any OpenAI-compatible client would."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from demo.chat import server_events
from hermes_contracts.installation import PORT_API
from release.forward import Forward
from release.kubectl import until
from tests.e2e.framework.installation import NAMESPACE, RELEASE, api_key, namespace_of

SETTLED = ("turn.done", "turn.failed", "turn.dead")
"""Events that end a turn."""


class Person:
    """A person of a story. Every session id is theirs alone."""

    def __init__(self, story: str, name: str = "ann", *, patience_seconds: float = 240) -> None:
        self.namespace = namespace_of(story)
        self._forward = Forward(f"{RELEASE}-gateway", PORT_API, NAMESPACE)
        self._patience_seconds = patience_seconds
        self._headers = {"Authorization": f"Bearer {api_key(story, name)}"}

    async def __aenter__(self) -> Person:
        await self._forward.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._forward.close()

    async def request(self, method: str, path: str, *, key: str = "", **arguments: Any) -> httpx.Response:
        """Send one request, again and on another gateway until it is answered; a key makes a repeated POST the same one."""
        headers = self._headers | ({"Idempotency-Key": key} if key else {}) | arguments.pop("headers", {})

        async def attempt() -> httpx.Response | None:
            await self._forward.open()
            url = self._forward.url
            try:
                async with httpx.AsyncClient(base_url=url, timeout=180, verify=False) as client:
                    response = await client.request(method, path, headers=headers, **arguments)
                    return None if response.status_code in (503, 504) else response
            except httpx.TransportError:
                await self._forward.broke(url)
                return None

        found: httpx.Response = await until(
            f"{method} {path} to be answered", attempt, deadline_seconds=self._patience_seconds
        )
        return found

    async def say(self, session: str, text: str, *, profile: str = "default", key: str = "") -> str:
        """Send a message, wait for the answer and return its text. `key` makes a repetition the same turn."""
        body = {"model": profile, "messages": [{"role": "user", "content": text}]}
        headers = {"X-Hermes-Session-Id": session}
        key = key or uuid.uuid4().hex
        response = await self.request("POST", "/v1/chat/completions", json=body, headers=headers, key=key)
        assert response.status_code == 200, response.text
        return str(response.json()["choices"][0]["message"]["content"])

    @asynccontextmanager
    async def streaming(self, session: str, text: str) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """Send a message and read the stream of its answer, one JSON chunk at a time."""
        body = {"model": "default", "stream": True, "messages": [{"role": "user", "content": text}]}
        headers = self._headers | {"X-Hermes-Session-Id": session}
        async with (
            httpx.AsyncClient(base_url=self._forward.url, timeout=180) as client,
            client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as response,
        ):
            assert response.status_code == 200, await response.aread()
            yield _chunks(response)

    async def send(self, sid: str, text: str, *, key: str = "", wait: int = 0) -> dict[str, Any]:
        """Post a message to a session; returns its `message_id`, with `wait` seconds also its turn."""
        path = f"/api/sessions/{sid}/messages" + (f"?wait={wait}" if wait else "")
        response = await self.request("POST", path, key=key or uuid.uuid4().hex, json={"text": text})
        assert response.status_code in (200, 202), response.text
        return dict(response.json())

    async def turn(self, sid: str, message_id: str) -> dict[str, Any]:
        """Return what became of a message."""
        response = await self.request("GET", f"/api/sessions/{sid}/turns/{message_id}")
        assert response.status_code == 200, response.text
        return dict(response.json())

    async def transcript(self, sid: str) -> list[dict[str, Any]]:
        """Return all messages of a session, oldest first."""
        found: list[dict[str, Any]] = []
        while True:
            after = found[-1]["sequence"] if found else 0
            page = (await self.request("GET", f"/api/sessions/{sid}/messages?after={after}&limit=200")).json()
            found += page["data"]
            if not page["has_more"]:
                return found

    async def events(self, sid: str, until_message: str) -> list[dict[str, Any]]:
        """Replay a session's events from the beginning to the one that settles a message."""

        async def attempt() -> list[dict[str, Any]]:
            await self._forward.open()
            url, found = self._forward.url, list[dict[str, Any]]()
            try:
                async with (
                    asyncio.timeout(30),
                    httpx.AsyncClient(base_url=url, timeout=20, verify=False) as client,
                    client.stream(
                        "GET", f"/api/sessions/{sid}/events", headers=self._headers | {"Last-Event-ID": "0"}
                    ) as response,
                ):
                    async for event in server_events(response):
                        found.append(json.loads(event.data))
                        if event.name in SETTLED and found[-1]["message_id"] == until_message:
                            return found
            except (httpx.TransportError, TimeoutError):
                await self._forward.broke(url)
            return []

        return list(await until(f"the events of {sid}", attempt, deadline_seconds=120))

    async def sessions(self) -> list[dict[str, Any]]:
        """List the person's sessions."""
        response = await self.request("GET", "/api/sessions")
        assert response.status_code == 200, response.text
        return list(response.json()["data"])


async def _chunks(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for event in server_events(response):
        if event.data == "[DONE]":
            return
        yield {"event": event.name, **json.loads(event.data)}


def content(chunk: dict[str, Any]) -> str:
    """Return the text in a chunk of a stream."""
    choices = chunk.get("choices") or [{}]
    return str(choices[0].get("delta", {}).get("content") or "")
