"""Webhook in to 200 out, stored and synced to disk: a gateway process and a NATS server on loopback, open loop.

Run: PYTHONPATH=libs:gateway_image:tools:. python -m bench.webhook_accept [--rate 200] [--seconds 10]
Prints one JSON line. Latency counts from the moment a request was due, so a stall is not hidden by a slow client.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.report import emit
from hermes_contracts import projection, subjects
from hermes_contracts.bus_permissions import Permissions, Role, service_permissions
from hermes_contracts.projection import ProfileProjection
from hermes_gateway.gateway.channels.signatures import SIGNATURE, TIMESTAMP, sign
from hermes_service import signing, streams
from hermes_service.bus import connect
from hermes_service.bus_keys import BusKeys
from local_stack.processes import Process, free_port, http_ok, tcp_open
from local_stack.servers import bus_process

SECRET = "a-secret-of-the-benchmark"
CONNECTIONS = 32
SESSIONS = 100


@dataclass
class Answer:
    milliseconds: float
    status: int


Build = Callable[[int], bytes]
"""Returns the request with a number, signed now."""


async def start(folder: Path, exits: AsyncExitStack, *routes: Mapping[str, object]) -> tuple[int, Process]:
    """Start NATS and a gateway with these routes; returns the webhook port and the gateway."""
    keys, bus_port, webhook_port, operations_port = BusKeys.generate(), free_port(), free_port(), free_port()
    nats = bus_process(folder, keys, bus_port)
    await nats.start()
    exits.push_async_callback(nats.stop)
    await nats.until(lambda: tcp_open(bus_port))
    url = f"nats://127.0.0.1:{bus_port}"
    everything = Permissions((">",), (">",), "_INBOX.bench")
    admin = await connect(url, keys.user("bench", everything), name="bench", inbox="_INBOX.bench")
    await streams.ensure_streams(admin.jetstream())
    profile = ProfileProjection(
        namespace="team", namespace_uid="uid", name="helper", model="m", provider="scripted", ready=True, message="",
        created_at=0,
    )  # fmt: skip
    bucket = await admin.jetstream().key_value(subjects.PROFILES_BUCKET)
    await bucket.put(projection.key("team", "helper"), profile.model_dump_json().encode())
    await admin.close()
    (folder / "bus.creds").write_text(keys.user("gateway", service_permissions(Role.GATEWAY)).render())
    (folder / "seed").write_text(signing.new_signing_seed())
    bound = [{"namespace": "team", "profile": "helper", **route} for route in routes]
    (folder / "webhooks.json").write_text(json.dumps({"routes": bound}))
    settings = {
        "HERMES_BUS_URL": url, "HERMES_BUS_CREDENTIALS_FILE": str(folder / "bus.creds"),
        "HERMES_SIGNING_SEED_FILE": str(folder / "seed"), "HERMES_WEBHOOKS_FILE": str(folder / "webhooks.json"),
        "HERMES_WEBHOOKS_HOST": "127.0.0.1", "HERMES_WEBHOOKS_PORT": str(webhook_port), "HERMES_API_HOST": "127.0.0.1",
        "HERMES_API_PORT": str(free_port()), "HERMES_OPERATIONS_HOST": "127.0.0.1",
        "HERMES_OPERATIONS_PORT": str(operations_port), "PYTHONPATH": ":".join(path for path in sys.path if path),
    }  # fmt: skip
    gateway = Process("gateway", [sys.executable, "-m", "hermes_gateway", "--role", "gateway"], folder, settings)
    await gateway.start()
    exits.push_async_callback(gateway.stop)
    await gateway.until(lambda: http_ok(operations_port, "/readyz"))
    return webhook_port, gateway


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process: unlike latency it hardly depends on what else the machine does."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def request(path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    """Return a request's bytes: a client of any comfort would cost more than what is measured."""
    named = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"POST {path} HTTP/1.1\r\nHost: bench\r\n{lines}\r\n".encode() + body


def build(number: int) -> bytes:
    """Return a request of the style `hermes`."""
    body = json.dumps({"text": f"message {number} " + "x" * 200, "thread": f"host-{number % SESSIONS}"}).encode()
    stamp = int(time.time())
    signed = {TIMESTAMP: str(stamp), SIGNATURE: sign(SECRET, stamp, body), "Hermes-Delivery-Id": f"d-{number}"}
    return request("/webhooks/bench", body, signed)


async def worker(port: int, due: asyncio.Queue[tuple[int, float] | None], answers: list[Answer], build: Build) -> None:
    """Send what is due over one kept connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while (job := await due.get()) is not None:
        number, moment = job
        writer.write(build(number))
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(line.split(":")[1] for line in head.lower().split("\r\n") if line.startswith("content-length"))
        await reader.readexactly(int(length))
        answers.append(Answer((time.perf_counter() - moment) * 1000, int(head.split(" ")[1])))
    writer.close()


async def load(port: int, rate: int, seconds: float, build: Build) -> list[Answer]:
    """Send at a fixed rate, whatever the answers do."""
    due: asyncio.Queue[tuple[int, float] | None] = asyncio.Queue()
    answers: list[Answer] = []
    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(worker(port, due, answers, build))
        begun = time.perf_counter()
        for number in range(int(rate * seconds)):
            moment = begun + number / rate
            await asyncio.sleep(max(0.0, moment - time.perf_counter()))
            due.put_nowait((number, moment))
        for _ in range(CONNECTIONS):
            due.put_nowait(None)
    return answers


async def measure(name: str, port: int, gateway: Process, rate: int, seconds: float, build: Build) -> None:
    """Send a load and print what came of it."""
    before = cpu_seconds(gateway.pid)
    answers = await load(port, rate, seconds, build)
    spent = cpu_seconds(gateway.pid) - before
    times = [answer.milliseconds for answer in answers]
    emit(
        name,
        times,
        rate_per_second=rate,
        max_ms=round(max(times), 2),
        not_200=sum(answer.status != 200 for answer in answers),
        gateway_cpu_ms_each=round(spent * 1000 / len(times), 2),
        load_average=os.getloadavg()[0],
    )


async def main(rate: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        async with AsyncExitStack() as exits:
            port, gateway = await start(Path(name), exits, {"name": "bench", "secret": SECRET})
            await measure("webhook_accept", port, gateway, rate, seconds, build)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.rate, arguments.seconds))
