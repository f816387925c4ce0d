"""A sleeping session's next message, for each kind of workspace: until it is taken up, until a command has seen the files.

The workspace holds 20 MiB in 200 files, as far as its kind keeps them. A bare pod of the same shape is started between the
samples. Then twenty sleeping sessions are written to at once. The Profile is left as it was.
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
from kubernetes import client, config

from bench.cold_start import bare_start
from bench.report import emit
from bench.taken_up import last_opened_at
from hermes_contracts.installation import PORT_API
from release import helm
from release.forward import forwarded
from release.kubectl import get, get_all, kubectl, until

RELEASE = os.environ.get("BENCH_RELEASE") or "hermes"
NAMESPACE = os.environ.get("BENCH_NAMESPACE") or RELEASE
SAMPLES = int(os.environ.get("BENCH_SAMPLES") or 6)
AT_ONCE = int(os.environ.get("BENCH_AT_ONCE") or 20)
PROFILE = "default"
KINDS = ("Ephemeral", "PersistentVolumeClaim", "Archive")
FILES, FILE_BYTES = 200, 104_858
FILL = f"!for i in $(seq {FILES}); do head -c {FILE_BYTES} /dev/urandom > f$i; done; ls | wc -l"
SMALL_SANDBOX, SMALL_AGENT = {"cpu": "10m", "memory": "64Mi"}, {"cpu": "10m", "memory": "128Mi"}
"""Requests of a pod that runs nothing to speak of, so that twenty fit a small node."""


@dataclass(frozen=True)
class _Wake:
    """Milliseconds from sending a message to a sleeping session."""

    taken: float
    answered: float


async def _set(sandbox: object, agent: object) -> None:
    for part in ({"sandbox": None, "agent": None}, {"sandbox": sandbox, "agent": agent}):
        patch = json.dumps({"spec": part})
        await kubectl("patch", "profile", PROFILE, "-n", NAMESPACE, "--type=merge", "-p", patch)


async def _say(http: httpx.AsyncClient, chat: str, text: str) -> str:
    body = {"model": PROFILE, "messages": [{"role": "user", "content": text}]}
    response = await http.post("/v1/chat/completions", json=body, headers={"X-Hermes-Session-Id": chat})
    response.raise_for_status()
    return str(response.json()["choices"][0]["message"]["content"])


async def _session_of(chat: str) -> dict[str, Any]:
    async def found() -> dict[str, Any] | None:
        sessions = await get_all("hermessessions", NAMESPACE)
        mine = [s for s in sessions if s["spec"].get("key", {}).get("chat") == chat]
        return mine[0] if mine and mine[0].get("status", {}).get("pod") else None

    return dict(await until(f"the session of {chat}", found))


async def _state(name: str, state: str) -> None:
    async def reached() -> bool:
        session = await get("hermessession", name, NAMESPACE) or {}
        return bool(session.get("status", {}).get("state") == state)

    await until(f"{name} to be {state}", reached)


async def _asleep(session: dict[str, Any]) -> None:
    """Put a session to sleep by hand, and wait until nothing of its pod is left."""
    name, pod = session["metadata"]["name"], session["status"]["pod"]
    for suspended, state in ((True, "Suspended"), (False, "Asleep")):
        patch = json.dumps({"spec": {"suspend": suspended}})
        await kubectl("patch", "hermessession", name, "-n", NAMESPACE, "--type=merge", "-p", patch)
        await _state(name, state)
        await kubectl("wait", "pod", pod, "-n", NAMESPACE, "--for=delete", "--timeout=120s")


async def _wake(http: httpx.AsyncClient, chat: str, sid: str) -> _Wake:
    sent = time.time()
    await _say(http, chat, "!ls | wc -l")
    answered = (time.time() - sent) * 1000
    return _Wake((await last_opened_at(RELEASE, NAMESPACE, sid) - sent) * 1000, answered)


async def _kind(http: httpx.AsyncClient, api: client.CoreV1Api, kind: str, bare: list[float]) -> None:
    """Wake one session of a kind again and again."""
    await _set({"workspace": {"kind": kind, "size": "256Mi"}}, None)
    chat = f"wake-{uuid.uuid4().hex[:8]}"
    await _say(http, chat, FILL)
    first = await _session_of(chat)
    (template,) = await get_all("pods", NAMESPACE, f"hermes.run/sid={first['status']['id']}")
    wakes = []
    for _ in range(SAMPLES):
        await _asleep(await _session_of(chat))
        wakes.append(await _wake(http, chat, first["status"]["id"]))
    await kubectl("delete", "hs", first["metadata"]["name"], "-n", NAMESPACE, "--wait=true")
    if kind == "Ephemeral":
        bare += [await bare_start(api, template) for _ in range(SAMPLES)]
    holds = "nothing" if kind == "Ephemeral" else f"{FILES} files, {FILES * FILE_BYTES // 2**20} MiB"
    emit("wake_taken_up", [wake.taken for wake in wakes], kind=kind, holds=holds)
    emit("wake_files_seen", [wake.answered for wake in wakes], kind=kind, holds=holds, what="sent to answer of `ls`")


async def _many(http: httpx.AsyncClient) -> None:
    await _set({"workspace": {"kind": "Archive", "size": "64Mi"}, "resources": SMALL_SANDBOX}, {"resources": SMALL_AGENT})
    chats = [f"many-{uuid.uuid4().hex[:8]}" for _ in range(AT_ONCE)]
    sessions = []
    for chat in chats:
        await _say(http, chat, "!echo kept > file")
        sessions.append(await _session_of(chat))
        await _asleep(sessions[-1])
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_wake(http, chat, session["status"]["id"]))
            for chat, session in zip(chats, sessions, strict=True)
        ]
    wakes = [task.result() for task in tasks]
    emit("wake_at_once", [wake.taken for wake in wakes], kind="Archive", sessions=AT_ONCE, what="sent to turn opened")
    emit("wake_at_once_answered", [wake.answered for wake in wakes], kind="Archive", sessions=AT_ONCE)
    names = [session["metadata"]["name"] for session in sessions]
    await kubectl("delete", "hs", *names, "-n", NAMESPACE, "--wait=true")


async def main() -> None:
    """Measure each kind, then many sessions."""
    config.load_kube_config()
    api = client.CoreV1Api()
    key = await helm.first_api_key(RELEASE, NAMESPACE)
    spec = (await get("profile", PROFILE, NAMESPACE) or {}).get("spec", {})
    bare: list[float] = []
    try:
        async with forwarded(f"{RELEASE}-gateway", PORT_API, NAMESPACE) as forward:
            headers = {"Authorization": f"Bearer {key}"}
            limits = httpx.Limits(max_connections=AT_ONCE + 4)
            async with httpx.AsyncClient(base_url=forward.url, headers=headers, timeout=180, limits=limits) as http:
                for kind in KINDS:
                    await _kind(http, api, kind, bare)
                await _many(http)
    finally:
        await _set(spec.get("sandbox"), spec.get("agent"))
    emit("wake_bare_pod", bare, what="API call to first line of Python, same two containers")


if __name__ == "__main__":
    asyncio.run(main())
