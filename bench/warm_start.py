"""Message published to first word of the answer: in a pod that waited for it, beside a pod that has to be made first.

The same Profile without a pool and with one, one after the other in one run. A first word is the first piece of text that
the streaming API gives; what the same session takes for its second message is printed too.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from typing import Any

import httpx

from bench.report import emit, percentile
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


async def _one(http: httpx.AsyncClient) -> tuple[float, float, dict[str, Any]]:
    chat = f"warm-{uuid.uuid4().hex[:8]}"
    first, second = await _first_word(http, chat), await _first_word(http, chat)

    async def found() -> dict[str, Any] | None:
        sessions = await get_all("hermessessions", NAMESPACE)
        mine = [s for s in sessions if s["spec"].get("key", {}).get("chat") == chat]
        return mine[0] if mine and mine[0].get("status", {}).get("pod") else None

    session = dict(await until("the session's status", found))
    name, pod = session["metadata"]["name"], session["status"]["pod"]
    await kubectl("delete", "hs", name, "-n", NAMESPACE, "--wait=true")
    await kubectl("wait", "pod", pod, "-n", NAMESPACE, "--for=delete", "--timeout=60s")
    return first, second, session


async def main() -> None:
    """Take cold samples, then warm ones; the Profile is left as it was."""
    key = await helm.first_api_key(RELEASE, NAMESPACE)
    before = ((await get("profile", PROFILE, NAMESPACE) or {}).get("spec", {}).get("warmPool") or {}).get("size", 0)
    warm, cold, hot, missed = list[float](), list[float](), list[float](), 0
    try:
        async with forwarded(f"{RELEASE}-gateway", PORT_API, NAMESPACE) as forward:
            headers = {"Authorization": f"Bearer {key}"}
            async with httpx.AsyncClient(base_url=forward.url, headers=headers, timeout=120) as http:
                await _size(0)
                cold += [(await _one(http))[0] for _ in range(COLD_SAMPLES)]
                await _size(POOL)
                for _ in range(SAMPLES):
                    await _pool_is_full()
                    first, second, session = await _one(http)
                    if session["status"]["pod"].startswith("warm-"):
                        warm.append(first)
                        hot.append(second)
                    else:
                        missed += 1
    finally:
        await _size(before)
    emit(
        "warm_start",
        warm,
        what="message sent to first word, from a waiting pod",
        missed=missed,
        target_p50=100,
        target_p99=400,
    )
    emit("warm_start_cold", cold, what="the same, in a pod that was made for it")
    emit("warm_start_hot", hot, what="the same, second message of the session")
    emit("warm_start_ratio", ratio=round(percentile(cold, 0.5) / percentile(warm, 0.5), 1))


if __name__ == "__main__":
    asyncio.run(main())
