"""A system that posts webhooks, and takes the answers, as a process of its own: for tests on a cluster."""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermes_gateway.gateway.channels.signatures import SIGNATURE, TIMESTAMP, problem_with, sign
from hermes_gateway.gateway.web.server import serve

SECRET = "a-secret-of-the-storm"
CONNECTIONS = 32


@dataclass
class FakeSystem:
    """What it was sent, and what it sent."""

    url: str
    answers: Counter[str] = field(default_factory=Counter)
    """How often each answer came, by text."""
    forged: int = 0
    run: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    """Part of each message's id: an installation that is used again knows those of an earlier run."""

    async def receive(self, request: Request) -> Response:
        body = await request.body()
        stamp, given = request.headers.get(TIMESTAMP), request.headers.get(SIGNATURE)
        if problem_with(SECRET, stamp, given, body, now=time.time(), window_seconds=300) is not None:
            self.forged += 1
            return Response(status_code=401)
        self.answers[json.loads(body)["text"]] += 1
        return Response(status_code=204)

    async def storm(self, *, rate: int, seconds: float, repeats: int, threads: int) -> dict[str, object]:
        """Post at a fixed rate, whatever the answers do: each message several times, as impatient senders do.

        Latency, in milliseconds, counts from the moment a request was due.
        """
        address = urlsplit(self.url)
        messages = int(rate * seconds) // repeats
        due: asyncio.Queue[tuple[int, float] | None] = asyncio.Queue()
        latencies: list[float] = []
        statuses: Counter[str] = Counter()
        duplicates = 0

        async def worker() -> None:
            nonlocal duplicates
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            while (job := await due.get()) is not None:
                number, moment = job
                status, answer = await self._post(reader, writer, number, threads)
                latencies.append((time.perf_counter() - moment) * 1000)
                statuses[status] += 1
                duplicates += status == "200" and json.loads(answer)["duplicate"]
            writer.close()

        async with asyncio.TaskGroup() as group:
            for _ in range(CONNECTIONS):
                group.create_task(worker())
            begun = time.perf_counter()
            for count in range(messages * repeats):
                moment = begun + count / rate
                await asyncio.sleep(max(0.0, moment - time.perf_counter()))
                # Round after round, so that a repetition comes while its message is being answered.
                due.put_nowait((count % messages, moment))
            for _ in range(CONNECTIONS):
                due.put_nowait(None)
        latencies.sort()
        return {
            "messages": messages,
            "statuses": statuses,
            "duplicates": duplicates,
            "p50": round(latencies[len(latencies) // 2], 1),
            "p99": round(latencies[len(latencies) * 99 // 100], 1),
        }

    async def _post(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int, threads: int
    ) -> tuple[str, bytes]:
        """Post one message over a kept connection: a client of any comfort would cost more than what is measured."""
        text = f"storm\n#script {json.dumps({'say': f'answer {number}'})}"
        body = json.dumps({"text": text, "thread": f"host-{number % threads}"}).encode()
        stamp = int(time.time())
        head = (
            f"POST {urlsplit(self.url).path} HTTP/1.1\r\nHost: gateway\r\nContent-Length: {len(body)}\r\n"
            f"{TIMESTAMP}: {stamp}\r\n{SIGNATURE}: {sign(SECRET, stamp, body)}\r\n"
            f"Hermes-Delivery-Id: {self.run}-{number}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(line.split(":")[1] for line in answer.split("\r\n") if line.startswith("content-length"))
        return answer.split(" ")[1], await reader.readexactly(int(length))


def build(system: FakeSystem) -> Starlette:
    """Return where answers go, `GET /state` and `POST /act`."""

    async def state(_: Request) -> Response:
        return JSONResponse({"answers": system.answers, "forged": system.forged})

    async def act(request: Request) -> Response:
        return JSONResponse({"said": await system.storm(**await request.json())})

    return Starlette(
        routes=[
            Route("/answers", system.receive, methods=["POST"]),
            Route("/state", state),
            Route("/act", act, methods=["POST"]),
        ]
    )


async def run(port: int) -> None:
    """Serve for ever."""
    async with serve(build(FakeSystem(os.environ["APP_URL"])), "0.0.0.0", port, shutdown_seconds=0):
        await asyncio.Event().wait()
