"""When a message is taken up, and its answer's first word is there: in a pod that waited for it, and in one made for it.

The same Profile without a pool and with one, one after the other in one run. A message is taken up when its turn is opened
in the database. A first word is the first piece of text that the streaming API gives; what the same session takes for its
second message is printed too.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from dataclasses import dataclass
from typing import Any

import httpx

from bench.report import emit, percentile
from bench.taken_up import opened_at
from hermes_contracts.installation import PORT_API
from release import helm
from release.forward import forwarded
from release.kubectl import get, get_all, kubectl, until

RELEASE = os.environ.get("BENCH_RELEASE") or "hermes"
NAMESPACE = os.environ.get("BENCH_NAMESPACE") or RELEASE
SAMPLES = int(os.environ.get("BENCH_SAMPLES") or 30)
COLD_SAMPLES = max(5, SAMPLES // 5)
POOL = 2
PROFILE = "default"


async def _size(size: int) -> None:
    """Set the size of the default Profile's pool."""
    patch = json.dumps({"spec": {"warmPool": {"size": size}}})
    await kubectl("patch", "profile", PROFILE, "-n", NAMESPACE, "--type=merge", "-p", patch)


async def _waiting() -> int:
    pods = await get_all("pods", NAMESPACE, "hermes.run/pool")
    running = [p for p in pods if p["status"].get("phase") == "Running" and "deletionTimestamp" not in p["metadata"]]
    profile = await get("profile", PROFILE, NAMESPACE) or {}
    return len(running) if profile.get("status", {}).get("warmPods") else 0


async def _pool_is_full() -> None:
    async def full() -> bool:
        return await _waiting() >= POOL

    await until("the pool to be full", full)
    # The last one may have started its containers and not yet said hello.
    await asyncio.sleep(2)


async def _first_word(http: httpx.AsyncClient, session: str) -> float:
    """Return the milliseconds from sending a message to the first text of its answer."""
    body = {"model": PROFILE, "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    headers = {"X-Hermes-Session-Id": session}
    started, first = time.perf_counter(), 0.0
    async with http.stream("POST", "/v1/chat/completions", json=body, headers=headers) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if line.startswith("data: {") and not first:
                choices = json.loads(line.removeprefix("data: ")).get("choices") or []
                if choices and choices[0]["delta"].get("content"):
                    first = (time.perf_counter() - started) * 1000
    return first


@dataclass(frozen=True)
class _Sample:
    """Milliseconds from sending a message, and the pod's name."""

    taken: float
    first: float
    second: float
    pod: str


async def _one(http: httpx.AsyncClient) -> _Sample:
    chat = f"warm-{uuid.uuid4().hex[:8]}"
    sent = time.time()
    first, second = await _first_word(http, chat), await _first_word(http, chat)

    async def found() -> dict[str, Any] | None:
        sessions = await get_all("hermessessions", NAMESPACE)
        mine = [s for s in sessions if s["spec"].get("key", {}).get("chat") == chat]
        return mine[0] if mine and mine[0].get("status", {}).get("pod") else None

    session = dict(await until("the session's status", found))
    name, pod = session["metadata"]["name"], session["status"]["pod"]
    taken = (await opened_at(RELEASE, NAMESPACE, session["status"]["id"]) - sent) * 1000
    await kubectl("delete", "hs", name, "-n", NAMESPACE, "--wait=true")
    await kubectl("wait", "pod", pod, "-n", NAMESPACE, "--for=delete", "--timeout=60s")
    return _Sample(taken, first, second, pod)


async def main() -> None:
    """Take cold samples, then warm ones; the Profile is left as it was."""
    key = await helm.first_api_key(RELEASE, NAMESPACE)
    before = ((await get("profile", PROFILE, NAMESPACE) or {}).get("spec", {}).get("warmPool") or {}).get("size", 0)
    warm, cold, missed = list[_Sample](), list[_Sample](), 0
    try:
        async with forwarded(f"{RELEASE}-gateway", PORT_API, NAMESPACE) as forward:
            headers = {"Authorization": f"Bearer {key}"}
            async with httpx.AsyncClient(base_url=forward.url, headers=headers, timeout=120) as http:
                await _size(0)
                cold += [await _one(http) for _ in range(COLD_SAMPLES)]
                await _size(POOL)
                for _ in range(SAMPLES):
                    await _pool_is_full()
                    sample = await _one(http)
                    if sample.pod.startswith("warm-"):
                        warm.append(sample)
                    else:
                        missed += 1
    finally:
        await _size(before)
    emit("warm_start", [one.taken for one in warm], what="message sent to its turn opened, in a waiting pod", missed=missed)
    emit("warm_start_first_word", [one.first for one in warm], what="message sent to first word, in a waiting pod")
    emit("warm_start_cold", [one.taken for one in cold], what="message sent to its turn opened, in a pod made for it")
    emit("warm_start_hot", [one.second for one in warm], what="message sent to first word, second message of the session")
    medians = [percentile([one.taken for one in some], 0.5) for some in (cold, warm)]
    emit("warm_start_ratio", ratio=round(medians[0] / medians[1], 1))


if __name__ == "__main__":
    asyncio.run(main())
