"""kubectl as an asynchronous function. Objects are plain dictionaries, as the API server sends them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import yaml

Object = dict[str, Any]


class CommandFailed(Exception):
    """A command that ended with an error; the message is what it wrote to stderr."""

    def __init__(self, command: Sequence[str], code: int, stderr: str) -> None:
        super().__init__(f"{' '.join(command[:6])}: exit code {code}: {stderr.strip()}")
        self.code = code
        self.stderr = stderr


async def run(*command: str, stdin: str | None = None, timeout_seconds: float = 120) -> str:
    """Run a command and return its stdout. Raises CommandFailed."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(timeout_seconds):
            out, err = await process.communicate(None if stdin is None else stdin.encode())
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    if process.returncode:
        raise CommandFailed(command, process.returncode, err.decode(errors="replace"))
    return out.decode(errors="replace")


async def kubectl(*arguments: str, stdin: str | None = None, timeout_seconds: float = 120) -> str:
    """Run kubectl against the cluster that KUBECONFIG names."""
    return await run("kubectl", *arguments, stdin=stdin, timeout_seconds=timeout_seconds)


async def apply(*objects: Object, namespace: str | None = None) -> None:
    """Apply objects server-side, as a person's edit."""
    where = ["-n", namespace] if namespace else []
    await kubectl("apply", "--server-side", "--force-conflicts", *where, "-f", "-", stdin=yaml.safe_dump_all(objects))


async def get(kind: str, name: str, namespace: str) -> Object | None:
    """Return an object, or None when it is not there."""
    try:
        return dict(json.loads(await kubectl("get", kind, name, "-n", namespace, "-o", "json")))
    except CommandFailed as error:
        if "NotFound" in error.stderr:
            return None
        raise


async def get_all(kind: str, namespace: str, selector: str = "") -> list[Object]:
    """Return every object of a kind in a namespace."""
    where = ["-l", selector] if selector else []
    return list(json.loads(await kubectl("get", kind, "-n", namespace, *where, "-o", "json"))["items"])


async def until(
    what: str, check: Callable[[], Awaitable[Any]], *, deadline_seconds: float = 60, period_seconds: float = 0.25
) -> Any:
    """Ask again until `check` returns something true, and return that. Raises TimeoutError that says what was awaited."""
    deadline = time.monotonic() + deadline_seconds
    while True:
        found = await check()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {deadline_seconds:.0f} s for: {what}")
        await asyncio.sleep(period_seconds)


def condition(thing: Object | None, kind: str) -> Object:
    """Return a condition of an object's status, or an empty dictionary."""
    conditions = (thing or {}).get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == kind), {})
