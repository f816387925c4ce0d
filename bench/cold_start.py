"""Message sent to its being taken up, in a new pod on the cluster, beside a bare pod of the same shape.

The bare pod has the same two containers, limits and images; its agent container only prints the time at its first line of
Python. Both are measured from this machine: from before the request is sent, with the clock that cluster and script share.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from typing import Any

import httpx
from kubernetes import client, config

from bench.report import emit, percentile
from bench.taken_up import opened_at
from hermes_contracts.installation import PORT_API
from release import helm
from release.forward import forwarded
from release.kubectl import get_all, kubectl, until

NAMESPACE = RELEASE = "hermes"
SAMPLES = 12


async def _answer(http: httpx.AsyncClient, session: str) -> None:
    body = {"model": "default", "messages": [{"role": "user", "content": "hello"}]}
    response = await http.post("/v1/chat/completions", json=body, headers={"X-Hermes-Session-Id": session})
    response.raise_for_status()


async def _session_of(sid_owner_chat: str) -> dict[str, Any]:
    async def found() -> dict[str, Any] | None:
        sessions = await get_all("hermessessions", NAMESPACE)
        mine = [s for s in sessions if s["spec"].get("key", {}).get("chat") == sid_owner_chat]
        return mine[0] if mine and mine[0].get("status", {}).get("startupMilliseconds") else None

    return dict(await until("the session's start-up breakdown", found))


def _bare(template: dict[str, Any], name: str) -> dict[str, Any]:
    """Strip a session's pod to its shape: same images, limits and volumes, no credentials and nothing to do."""
    spec = json.loads(json.dumps(template["spec"]))
    for key in ("nodeName", "serviceAccountName", "serviceAccount", "tolerations", "priority", "preemptionPolicy"):
        spec.pop(key, None)
    secrets = {v["name"] for v in spec["volumes"] if "secret" in v}
    spec["volumes"] = [v for v in spec["volumes"] if v["name"] not in secrets]
    (sandbox,), (agent,) = spec["initContainers"], spec["containers"]
    for container in (sandbox, agent):
        container["volumeMounts"] = [m for m in container["volumeMounts"] if m["name"] not in secrets]
        container.pop("env", None)
        container.pop("args", None)
    sandbox["command"] = ["python3", "-I", "-S", "-c", "import time; time.sleep(3600)"]
    agent["command"] = [
        "/app/bin/python3",
        "-I",
        "-S",
        "-c",
        "import time; print(time.time(), flush=True); time.sleep(3600)",
    ]
    spec["terminationGracePeriodSeconds"] = 1
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def _create(api: client.CoreV1Api, manifest: dict[str, Any]) -> float:
    """Create a pod; returns the time before the request, in seconds since the epoch."""
    started = time.time()
    api.create_namespaced_pod(NAMESPACE, manifest)
    return started


async def bare_start(api: client.CoreV1Api, template: dict[str, Any]) -> float:
    """Start a bare pod of the shape of `template`, a session's pod; return the milliseconds to its first line of Python."""
    name = f"bare-{uuid.uuid4().hex[:8]}"
    started = await asyncio.to_thread(_create, api, _bare(template, name))

    async def first_line() -> str:
        pod = await asyncio.to_thread(api.read_namespaced_pod, name, NAMESPACE)
        if pod.status.phase != "Running":
            return ""
        return str(await asyncio.to_thread(api.read_namespaced_pod_log, name, NAMESPACE, container="agent"))

    try:
        return (float(await until("the bare pod's first line", first_line)) - started) * 1000
    finally:
        await kubectl("delete", "pod", name, "-n", NAMESPACE, "--wait=true")


async def main() -> None:
    """Alternate ours and bare, so that both see the same machine."""
    config.load_kube_config()
    api = client.CoreV1Api()
    key = await helm.first_api_key(RELEASE, NAMESPACE)
    ours, bare, phases = list[float](), list[float](), list[dict[str, float]]()
    async with forwarded(f"{RELEASE}-gateway", PORT_API, NAMESPACE) as forward:
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=forward.url, headers=headers, timeout=120) as http:
            for _ in range(SAMPLES):
                chat = f"cold-{uuid.uuid4().hex[:8]}"
                sent = time.time()
                await _answer(http, chat)
                session = await _session_of(chat)
                ours.append((await opened_at(RELEASE, NAMESPACE, session["status"]["id"]) - sent) * 1000)
                phases.append(session["status"]["startupMilliseconds"])
                (pod,) = await get_all("pods", NAMESPACE, f"hermes.run/sid={session['status']['id']}")
                await kubectl("delete", "hs", session["metadata"]["name"], "-n", NAMESPACE, "--wait=true")
                # What is still ending would slow down what starts.
                await kubectl("wait", "pod", pod["metadata"]["name"], "-n", NAMESPACE, "--for=delete", "--timeout=60s")
                bare.append(await bare_start(api, pod))
    emit("cold_start", ours, what="message sent to its turn opened")
    emit("bare_pod", bare, what="API call to first line of Python, same two containers")
    emit("cold_start_ratio", ratio=round(percentile(ours, 0.5) / percentile(bare, 0.5), 2))
    for phase in phases[0]:
        emit("cold_start_phase", [p.get(phase, 0.0) for p in phases], phase=phase)


if __name__ == "__main__":
    asyncio.run(main())
