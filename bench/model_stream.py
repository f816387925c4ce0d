"""What the models service adds to a model's stream: milliseconds a token, and milliseconds a whole call.

`python -m bench.model_stream [--calls N] [--tokens N]`; one JSON line a measurement. Both processes are the real ones; the
provider of the first measurement lives in this process and writes the clock into each token.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import jwt
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.report import emit
from hermes_contracts.conversation import Message
from hermes_contracts.model_api import STREAM_PATH, TOKEN_AUDIENCE, TOKEN_ISSUER, ModelRequest
from scripted_model.http_server import Connection, Request, listen

ROOT = Path(__file__).resolve().parent.parent


def cpu_seconds(pid: int) -> float:
    """Return the processor time a process has used: the one number that a busy machine does not blur."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@asynccontextmanager
async def process(*arguments: str, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    path = ":".join(str(ROOT / part) for part in ("libs", "gateway_image", "tools"))
    running = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env={**os.environ, "PYTHONPATH": path, **environment}, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        yield running
    finally:
        running.terminate()
        await running.wait()


async def until_open(port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return


async def stamped(_: Request, connection: Connection, tokens: int, pause: float) -> None:
    """Answer with tokens that say when they left."""
    connection.start(200, {"content-type": "text/event-stream"})
    for number in range(tokens):
        await asyncio.sleep(pause)
        delta = {"content": repr(time.perf_counter())}
        chunk = {"id": "x", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": None}], "n": number}
        await connection.part(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    end = {"model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}}
    await connection.part(b"data: " + json.dumps(end).encode() + b"\n\ndata: [DONE]\n\n")
    connection.end()


async def tokens_of(http: httpx.AsyncClient, body: str, headers: dict[str, str]) -> list[float]:
    found = []
    async with http.stream("POST", STREAM_PATH, content=body, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        async for line in response.aiter_lines():
            now = time.perf_counter()
            event = json.loads(line)
            assert event["type"] != "error", event
            if event["type"] == "text":
                found.append(now - float(event["text"]))
    return found


async def timed(http: httpx.AsyncClient, url: str, body: str, headers: dict[str, str]) -> float:
    started = time.perf_counter()
    response = await http.post(url, content=body, headers=headers)
    assert response.status_code == 200 and b'"error"' not in response.content, response.content
    return time.perf_counter() - started


async def measure_tokens(http: httpx.AsyncClient, pid: int, headers: dict[str, str], streams: int) -> None:
    """Measure from a token's leaving the provider to its arrival at the client."""
    body = request_of(0).model_dump_json()
    used = cpu_seconds(pid)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(tokens_of(http, body, headers)) for _ in range(streams)]
    used = (cpu_seconds(pid) - used) * 1_000_000 / sum(len(task.result()) for task in tasks)
    samples = [seconds * 1000 for task in tasks for seconds in task.result()[5:]]
    emit("model_stream: token, provider to client", samples, streams=streams, service_cpu_us=round(used), target_p50_ms=3)


async def first_line(http: httpx.AsyncClient, url: str, body: str, headers: dict[str, str]) -> float:
    """Return the seconds from the request to the first line with text in it."""
    started = time.perf_counter()
    found = 0.0
    async with http.stream("POST", url, content=body, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        async for line in response.aiter_lines():
            if not found and ('"content"' in line or '"text"' in line):
                found = time.perf_counter() - started
    return found


async def measure_first(http: httpx.AsyncClient, upstream: str, headers: dict[str, str], calls: int) -> None:
    """Measure the first token of a provider that answers at once: asked directly, and through the service, in turn."""
    body = request_of(0).model_dump_json()
    plain, added = [], []
    for number in range(calls + 20):
        one = await first_line(http, f"{upstream}/chat/completions", "{}", {})
        two = await first_line(http, STREAM_PATH, body, headers)
        if number >= 20:
            plain.append(one * 1000)
            added.append((two - one) * 1000)
    emit("model_stream: first token, provider alone", plain)
    emit("model_stream: first token, added by the service", added, target_p50_ms=3)


async def measure_calls(
    http: httpx.AsyncClient, pid: int, scripted: str, headers: dict[str, str], calls: int, size: int
) -> None:
    """Measure whole calls of the scripted model, past the service and through it, in turn."""
    neutral = request_of(size)
    direct = {
        "model": "scripted", "stream": True, "stream_options": {"include_usage": True},
        "messages": [{"role": m.role.value, "content": m.text()} for m in neutral.messages],
    }  # fmt: skip
    plain, through = [], []
    used = 0.0
    for number in range(calls + 20):
        if number == 20:
            used = cpu_seconds(pid)
        one = await timed(http, f"{scripted}/chat/completions", json.dumps(direct), {})
        two = await timed(http, STREAM_PATH, neutral.model_dump_json(), headers)
        if number >= 20:
            plain.append(one * 1000)
            through.append(two * 1000)
    used = (cpu_seconds(pid) - used) * 1000 / calls
    emit("model_stream: call, scripted model alone", plain, history_messages=size)
    emit("model_stream: call, through the service", through, history_messages=size, service_cpu_ms=round(used, 2))
    added = [b - a for a, b in zip(plain, through, strict=True)]
    emit("model_stream: call, added by the service", added, history_messages=size)


def request_of(size: int) -> ModelRequest:
    """Return a greeting after `size` messages of a kilobyte each."""
    history = [Message.user("x" * 1000) if n % 2 == 0 else Message.assistant("y" * 1000) for n in range(size)]
    return ModelRequest(turn_id="t", step=0, system="s", messages=(*history, Message.user("hello")))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=300)
    flags = parser.parse_args()
    key = Ed25519PrivateKey.generate()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        (folder / "public.pem").write_bytes(public)
        upstream = await stack.enter_async_context(listen(lambda r, c: stamped(r, c, flags.tokens, 0.005), "127.0.0.1", 0))
        instant = await stack.enter_async_context(listen(lambda r, c: stamped(r, c, 1, 0), "127.0.0.1", 0))
        scripted, models = free_port(), free_port()
        secret = {"type": "hermes.run/provider", "data": {"api-key": "k", "hosts": "127.0.0.1"}}

        def at(port: int) -> dict[str, object]:
            url = f"http://127.0.0.1:{port}/v1"
            return {"model": {"provider": "openai", "name": "m", "baseUrl": url, "secretRef": {"name": "key"}}}

        profiles = [
            {"namespace": "bench", "name": "stamped", "spec": at(upstream), "secrets": {"key": secret}},
            {"namespace": "bench", "name": "instant", "spec": at(instant), "secrets": {"key": secret}},
            {"namespace": "bench", "name": "scripted", "spec": {"model": {"provider": "scripted", "name": "scripted"}}},
        ]
        (folder / "profiles.yaml").write_text(yaml.safe_dump(profiles))
        (folder / "bus.creds").write_text(
            "-----BEGIN NATS USER JWT-----\nx\n------END NATS USER JWT------\n"
            "-----BEGIN USER NKEY SEED-----\nx\n------END USER NKEY SEED------\n"
        )
        await stack.enter_async_context(process("-m", "scripted_model", "--host", "127.0.0.1", "--port", str(scripted)))
        service = await stack.enter_async_context(
            process(
                "-m", "hermes_gateway", "--role", "models",
                HERMES_LISTEN_HOST="127.0.0.1", HERMES_LISTEN_PORT=str(models), HERMES_OPERATIONS_PORT="0",
                HERMES_TOKEN_PUBLIC_KEY_FILE=str(folder / "public.pem"), HERMES_PROFILES_FILE=str(folder / "profiles.yaml"),
                HERMES_TENANTS='["bench"]', HERMES_SCRIPTED_URL=f"http://127.0.0.1:{scripted}/v1",
                HERMES_ALLOWED_PRIVATE_HOSTS='["127.0.0.1"]', HERMES_BUS_URL="nats://127.0.0.1:1", HERMES_LOG_LEVEL="error",
                HERMES_BUS_CREDENTIALS_FILE=str(folder / "bus.creds"),
            )
        )  # fmt: skip
        await until_open(scripted)
        await until_open(models)

        def headers(profile: str) -> dict[str, str]:
            claims = {
                "iss": TOKEN_ISSUER, "aud": TOKEN_AUDIENCE, "sub": "s" + "a" * 25, "exp": int(time.time()) + 600,
                "namespace": "bench", "profile": profile, "epoch": 1,
            }  # fmt: skip
            return {"authorization": f"Bearer {jwt.encode(claims, key, algorithm='EdDSA')}"}

        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{models}", timeout=30) as http:
            for streams in (1, 8):
                await measure_tokens(http, service.pid, headers("stamped"), streams)
            await measure_first(http, f"http://127.0.0.1:{instant}/v1", headers("instant"), flags.calls)
            for size in (0, 200):
                url = f"http://127.0.0.1:{scripted}/v1"
                await measure_calls(http, service.pid, url, headers("scripted"), flags.calls, size)


if __name__ == "__main__":
    asyncio.run(main())
