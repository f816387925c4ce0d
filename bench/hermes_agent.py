"""Hermes Agent 0.19 beside us, in one run: tool rounds over its API server and ours, memory, and the bytes of a model call.

Both talk to the same scripted model, which answers at once and asks for 20 shell commands, one after the other. Hermes Agent
runs them in a local shell without isolation, approvals off; we run them in sandboxd and write each step to PostgreSQL.
The peer is installed into an environment of its own under `.local` (138 MB, hashed in locks/peer.txt).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx

from bench.hot_turn import ROUNDS, tool_rounds
from bench.report import emit
from local_stack.processes import free_port
from local_stack.runner import LocalRunner
from local_stack.stack import running_stack, stack_folder

ROOT = Path(__file__).parents[1]
VENV = ROOT / ".local" / "peer-venv"
SAMPLES = 8


def install() -> None:
    """Install what locks/peer.txt names, unless it is there."""
    lock, marker = ROOT / "locks" / "peer.txt", VENV / "installed.txt"
    if marker.exists() and marker.read_bytes() == lock.read_bytes():
        return
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:{ROOT}/.local/uv/bin"}
    for arguments in (
        ["uv", "venv", "--quiet", "--clear", str(VENV)],
        ["uv", "pip", "sync", "--quiet", "--require-hashes", "-p", str(VENV / "bin" / "python"), str(lock)],
    ):
        subprocess.run(arguments, check=True, env=environment)
    marker.write_bytes(lock.read_bytes())


def write_home(home: Path, model_url: str, port: int, key: str) -> None:
    """Write the peer's configuration: custom provider, local backend, no approvals, API server on."""
    (home / "config.yaml").write_text(
        json.dumps(  # JSON is YAML
            {
                "model": {"default": "scripted", "provider": "custom", "base_url": model_url, "api_key": "none"},
                "approvals": {"mode": "off"},
                "terminal": {"backend": "local"},
            }
        )
    )
    (home / ".env").write_text(f"API_SERVER_ENABLED=true\nAPI_SERVER_KEY={key}\nAPI_SERVER_PORT={port}\n")


@contextlib.asynccontextmanager
async def running_peer(home: Path, port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the peer's gateway until its API server answers; ends it afterwards."""
    environment = {"PATH": f"{VENV}/bin:{os.environ['PATH']}", "HOME": str(home), "HERMES_HOME": str(home)}
    with (home / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            str(VENV / "bin" / "hermes"), "gateway", "run", cwd=home, env=environment, stdout=log, stderr=log
        )
    try:
        async with asyncio.timeout(120), httpx.AsyncClient() as client:
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    if (await client.get(f"http://127.0.0.1:{port}/health")).status_code == 200:
                        break
                if process.returncode is not None:
                    raise RuntimeError((home / "log").read_text()[-2000:])
                await asyncio.sleep(0.2)
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@contextlib.asynccontextmanager
async def running_model(port: int) -> AsyncIterator[str]:
    """Run a scripted model that keeps the requests it gets; yields its base URL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "scripted_model", "--port", str(port), "--host", "127.0.0.1",
        env={**os.environ, "PYTHONPATH": f"{ROOT}/tools:{ROOT}/libs"}, stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(30), httpx.AsyncClient() as client:
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    if (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200:
                        break
                await asyncio.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        await process.wait()


async def turn(client: httpx.AsyncClient, model: str, text: str, headers: dict[str, str]) -> float:
    """Return the milliseconds of one request."""
    body = {"model": model, "messages": [{"role": "user", "content": text}]}
    started = time.perf_counter()
    response = await client.post("/v1/chat/completions", json=body, headers=headers)
    response.raise_for_status()
    assert "done" in response.text or text == "hello", response.text[:300]
    return (time.perf_counter() - started) * 1000


async def rounds(client: httpx.AsyncClient, model: str, headers: dict[str, str]) -> list[float]:
    """Return milliseconds a round of several turns, each less a turn without any."""
    await turn(client, model, "hello", headers)
    measured = []
    for _ in range(SAMPLES):
        plain = await turn(client, model, "hello", headers)
        measured.append((await turn(client, model, tool_rounds(), headers) - plain) / ROUNDS)
    return measured


def tree_mib(pid: int) -> float:
    """Return the resident memory of a process and its descendants, in MiB."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    status = Path(f"/proc/{pid}/status").read_text()
    kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return round(kib / 1024 + sum(tree_mib(int(child)) for child in children), 1)


async def call_bytes(model_url: str) -> int:
    """Return the size of the newest model call: prompt and tools, as its transcript is one short message."""
    async with httpx.AsyncClient() as client:
        seen = (await client.get(f"{model_url.removesuffix('/v1')}/requests")).json()
    return max(int(request["bytes"]) for request in seen["requests"])


async def peer() -> None:
    """Measure Hermes Agent."""
    key, port = secrets.token_hex(16), free_port()
    with tempfile.TemporaryDirectory() as folder:
        async with running_model(free_port()) as model_url:
            write_home(Path(folder), model_url, port, key)
            async with running_peer(Path(folder), port) as process:
                headers = {"Authorization": f"Bearer {key}"}
                async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=180) as client:
                    await turn(client, "hermes-agent", "hello", headers)
                    emit("peer_model_call_bytes", what="Hermes Agent 0.19", bytes=await call_bytes(model_url))
                    emit(
                        "peer_tool_round",
                        await rounds(client, "hermes-agent", headers),
                        what="Hermes Agent 0.19, local shell",
                    )
                emit("peer_memory", process="Hermes Agent 0.19 gateway", mib=tree_mib(process.pid))


async def ours() -> None:
    """Measure the same on our local stack."""
    with stack_folder() as folder:
        async with running_stack(folder) as stack:
            runner = LocalRunner(stack)
            task = asyncio.create_task(runner.run())
            try:
                headers = {"Authorization": f"Bearer {stack.api_key}", "X-Hermes-Session-Id": "bench"}
                async with httpx.AsyncClient(base_url=stack.api_url, timeout=180) as client:
                    await turn(client, "default", "hello", headers)
                    emit(
                        "our_tool_round",
                        await rounds(client, "default", headers),
                        what="API to sandboxd, steps in PostgreSQL",
                    )
                session = next(iter(runner.sessions.values()))
                emit(
                    "our_memory",
                    process="agent and sandboxd",
                    mib=tree_mib(session.agent.pid) + tree_mib(session.sandbox.pid),
                )
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


async def main() -> None:
    """Measure the peer, then us."""
    await asyncio.to_thread(install)
    await peer()
    await ours()


if __name__ == "__main__":
    asyncio.run(main())
