"""Starts the program and its way to the model in the sandbox, for one turn; what was started ends with it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_agent.codex.app_server import MAX_LINE_BYTES, AppServer, Refused
from hermes_agent.codex.lines import NotItsProtocol, Piped
from hermes_agent.sandbox import ExecRequest, Sandbox, SandboxError

HOME = ".hermes/codex"
"""Where the program keeps its threads, below the workspace: they live as long as the workspace does."""
START_SECONDS = 30.0
MAX_REQUEST_BYTES = 10 * 1024 * 1024
_TOKEN = "HERMES_MODEL_TOKEN"
_THREAD_ID = re.compile(r"[0-9A-Za-z-]{1,64}")
_RELAY = Path(__file__).with_name("relay.py")


@dataclass(frozen=True)
class Setting:
    """How the program is started; `window` is what the model reads, in tokens, 0 when nobody knows."""

    command: tuple[str, ...]
    model: str
    instructions: str
    window: int


@dataclass(frozen=True)
class Thread:
    """The program's own conversation; `is_new` when it knows nothing of what was said before."""

    id: str
    is_new: bool


@asynccontextmanager
async def running(
    sandbox: Sandbox, setting: Setting, serve: Callable[[Piped, AppServer], Coroutine[Any, Any, None]]
) -> AsyncIterator[AppServer]:
    """Start relay and program; `serve` answers the relay meanwhile. Raises what `AppServer.request` raises."""
    async with AsyncExitStack() as stack:
        token = secrets.token_urlsafe(32)
        argv = ("python3", "-I", "-S", "-c", _RELAY.read_text())
        stream = await stack.enter_async_context(await sandbox.exec(ExecRequest(argv=argv, stdin=True)))
        relay = Piped(stream, max_line_bytes=MAX_REQUEST_BYTES)
        await relay.send({"token": token})
        port = await _port(relay)
        await sandbox.mkdir(HOME)
        request = ExecRequest(
            argv=(*setting.command, "app-server", *options(setting, port)),
            env={"CODEX_HOME": f"{await sandbox.workspace()}/{HOME}", _TOKEN: token, "RUST_LOG": "error"},
            stdin=True,
        )
        stream = await stack.enter_async_context(await sandbox.exec(request))
        server = AppServer(Piped(stream, max_line_bytes=MAX_LINE_BYTES))
        await stack.enter_async_context(_beside(server.pump()))
        await stack.enter_async_context(_beside(serve(relay, server)))
        client: dict[str, object] = {"name": "hermes", "title": "Hermes", "version": "1"}
        await server.request("initialize", {"clientInfo": client})
        await server.notify("initialized")
        yield server


def options(setting: Setting, port: int) -> list[str]:
    """Return the program's options: its one provider is the relay, and it neither searches nor reports by itself."""
    provider = (
        f'{{name="Hermes",base_url="http://127.0.0.1:{port}/v1",wire_api="responses",env_key="{_TOKEN}",'
        "request_max_retries=0,stream_max_retries=0,stream_idle_timeout_ms=3600000}"
    )
    values = {
        "model_providers.hermes": provider,
        "model_provider": '"hermes"',
        "model": json.dumps(setting.model),
        "web_search": '"disabled"',
        "analytics.enabled": "false",
        "check_for_update_on_startup": "false",
        "features.multi_agent": "false",
        **({"model_context_window": str(setting.window)} if setting.window else {}),
    }
    return [word for name, value in values.items() for word in ("-c", f"{name}={value}")]


async def open_thread(sandbox: Sandbox, server: AppServer, setting: Setting, conversation: str, undone: int) -> Thread:
    """Resume the conversation's thread, or start one and remember it beside the program's own files.

    `undone`: how often something was taken back. The thread from before still holds it, so that another one begins.
    """
    facts: dict[str, object] = {
        "cwd": await sandbox.workspace(),
        "approvalPolicy": "untrusted",
        "sandbox": "danger-full-access",
        "modelProvider": "hermes",
        "model": setting.model,
        "developerInstructions": setting.instructions or None,
    }
    name = f"{conversation} {undone}" if undone else conversation
    path = f"{HOME}/hermes-threads/{hashlib.sha256(name.encode()).hexdigest()[:32]}"
    known = await _remembered(sandbox, path)
    if known:
        try:
            return Thread(
                _id_in(await server.request("thread/resume", {**facts, "threadId": known}), "thread"), is_new=False
            )
        except Refused:
            pass  # its files are gone or of another version: what was said is told to a new one
    thread = _id_in(await server.request("thread/start", facts), "thread")
    await sandbox.write_file(path, thread.encode())
    return Thread(thread, is_new=True)


async def start_turn(server: AppServer, thread: Thread, text: str) -> str:
    """Give the program its work; return the turn's id."""
    params: dict[str, object] = {"threadId": thread.id, "input": [{"type": "text", "text": text}]}
    return _id_in(await server.request("turn/start", params), "turn")


def _id_in(result: dict[str, object], key: str) -> str:
    found = result.get(key)
    found_id = found.get("id") if isinstance(found, dict) else None
    if not isinstance(found_id, str) or not _THREAD_ID.fullmatch(found_id):
        raise NotItsProtocol(f"an answer without {key}.id")
    return found_id


async def _remembered(sandbox: Sandbox, path: str) -> str:
    try:
        text = (await sandbox.read_file(path, length=64)).decode("utf-8", "replace").strip()
    except SandboxError:
        return ""
    return text if _THREAD_ID.fullmatch(text) else ""


async def _port(relay: Piped) -> int:
    async with asyncio.timeout(START_SECONDS):
        async for value in relay.values():
            port = value.get("port")
            if isinstance(port, int) and 0 < port < 65_536:
                return port
            raise NotItsProtocol("no port")
    raise NotItsProtocol("no port")


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run work beside the body; it ends with it."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
