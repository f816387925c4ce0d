"""A port of a Service on loopback, for as long as a context lasts; opened again when the pod behind it goes away."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Forward:
    """`kubectl port-forward` to a Service. Its local port may change when it is opened again: ask `url` each time."""

    def __init__(self, service: str, port: int, namespace: str) -> None:
        self._command = ["kubectl", "port-forward", "-n", namespace, f"svc/{service}", f":{port}", "--address", "127.0.0.1"]
        self._process: asyncio.subprocess.Process | None = None
        self._port = 0
        self._opening = asyncio.Lock()

    @property
    def url(self) -> str:
        """Address on loopback."""
        return f"http://127.0.0.1:{self._port}"

    async def open(self, deadline_seconds: float = 60) -> None:
        """Open, or open again if it broke."""
        async with asyncio.timeout(deadline_seconds), self._opening:
            while self._process is None or self._process.returncode is not None:
                await self._start()

    async def _start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode()
        match = re.search(r"127\.0\.0\.1:(\d+) ->", line)
        if match:
            self._port = int(match.group(1))
            return
        await self._process.wait()
        await asyncio.sleep(0.5)

    async def broke(self, url: str) -> None:
        """Close what was reached by `url`; another caller may have opened it again by now."""
        if self.url == url:
            await self.close()

    async def close(self) -> None:
        """End it."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            await self._process.wait()


@asynccontextmanager
async def forwarded(service: str, port: int, namespace: str) -> AsyncIterator[Forward]:
    """Forward while the context lasts."""
    forward = Forward(service, port, namespace)
    try:
        await forward.open()
        yield forward
    finally:
        await forward.close()
