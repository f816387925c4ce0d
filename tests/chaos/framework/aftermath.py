"""What is left behind when the storm is over: nothing may be."""

from __future__ import annotations

import contextlib
import json
import re

from hermes_contracts.names import LABEL_SID
from release.kubectl import get_all, kubectl, until
from tests.e2e.framework.installation import NAMESPACE, RELEASE

_ASLEEP = ("Asleep", "Suspended")


async def everything_is_ready() -> None:
    """Wait until every pod of the installation is ready."""

    async def ready() -> bool:
        pods = await get_all("pods", NAMESPACE, f"app.kubernetes.io/instance={RELEASE}")
        alive = [pod for pod in pods if pod["status"].get("phase") != "Succeeded"]
        return all(
            any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", [])) for pod in alive
        )

    await until("every pod of the installation to be ready", ready, deadline_seconds=180, period_seconds=1)


async def everybody_sleeps(namespace: str) -> None:
    """Wait until every session sleeps."""

    awake: list[str] = []

    async def asleep() -> bool:
        sessions = [(one["metadata"]["name"], one.get("status", {})) for one in await get_all("hermessessions", namespace)]
        awake[:] = [
            f"{name} is {status.get('state')}, epoch {status.get('epoch')}, {status.get('pending', 0)} waiting"
            for name, status in sessions
            if status.get("state") not in _ASLEEP
        ]
        return not awake

    try:
        await until(f"all sessions of {namespace} to sleep", asleep, deadline_seconds=150, period_seconds=1)
    except TimeoutError as error:
        raise TimeoutError(f"{error}: {'; '.join(awake)}") from None


async def leftovers(namespace: str) -> list[str]:
    """Return what should not be there any more, and did not go within a minute after everybody fell asleep."""
    last: list[str] = []

    async def nothing() -> bool:
        last[:] = await _found(namespace)
        return not last

    with contextlib.suppress(TimeoutError):
        await until("nothing to be left", nothing, deadline_seconds=60, period_seconds=2)
    return last


async def _found(namespace: str) -> list[str]:
    """Return pods, credentials, consumers, waiting messages and rows that were not published."""
    sessions = await get_all("hermessessions", namespace)
    sids = {one["status"]["id"] for one in sessions}
    found = [
        f"{one['metadata']['name']} has {n} messages waiting" for one in sessions if (n := one["status"].get("pending", 0))
    ]
    for kind in ("pods", "secrets"):
        found += [f"{kind} {one['metadata']['name']}" for one in await get_all(kind, namespace, LABEL_SID)]
    found += [f"consumer {name}" for name in await _consumers() if name.split("-")[0] in sids]
    waiting = await _outbox_waiting()
    return found + ([f"{waiting:g} rows of the outbox were not published"] if waiting else [])


async def _proxied(pod: str, port: int, path: str) -> str:
    return await kubectl("get", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}:{port}/proxy/{path}")


async def _first_pod(component: str) -> str:
    selector = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/component={component}"
    return str((await get_all("pods", NAMESPACE, selector))[0]["metadata"]["name"])


async def _consumers() -> list[str]:
    report = json.loads(await _proxied(await _first_pod("bus"), 8222, "jsz?accounts=1&streams=1&consumers=1"))
    streams = [stream for account in report.get("account_details", []) for stream in account.get("stream_detail", [])]
    return [consumer["name"] for stream in streams for consumer in stream.get("consumer_detail") or []]


async def _outbox_waiting() -> float:
    metrics = await _proxied(await _first_pod("store"), 9090, "metrics")
    found = re.search(r"^hermes_store_outbox_waiting_messages (\S+)$", metrics, re.MULTILINE)
    return float(found.group(1)) if found else 0.0
