"""Kills what the plan says, on the cluster."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from hermes_contracts.names import LABEL_SID
from release.kubectl import CommandFailed, Object, get_all, kubectl, until
from tests.chaos.framework.plan import SESSIONS, Kill
from tests.e2e.framework.installation import NAMESPACE, RELEASE
from tests.e2e.framework.node import kill_container

DEADLINE_SECONDS = 60.0
"""How long a victim is waited for: it may have been killed just now."""


@dataclass
class Reaper:
    """Carries a plan out. `sessions`: the namespace whose sessions may be hit."""

    sessions: str
    done: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)

    async def run(self, kills: Sequence[Kill]) -> None:
        """Kill at the planned times, or as soon as there is a victim."""
        started = time.monotonic()
        for kill in kills:
            await asyncio.sleep(max(0.0, kill.at - (time.monotonic() - started)))
            strike = partial(self._strike, kill)
            pod = await until(f"a {kill.target} to kill", strike, deadline_seconds=DEADLINE_SECONDS)
            self.done[kill.target] += 1
            self.log.append(f"{time.monotonic() - started:6.1f} s  {kill.target:9s} {kill.way:8s} {pod}")

    async def _strike(self, kill: Kill) -> str | None:
        """Kill one that runs; None when there is none, or it went away by itself meanwhile."""
        in_session = kill.target in SESSIONS
        namespace = self.sessions if in_session else NAMESPACE
        selector = LABEL_SID if in_session else _selector(kill.target)
        try:
            pods = {p["metadata"]["name"]: p for p in await get_all("pods", namespace, selector)}
            running = [name for name, pod in pods.items() if _runs(pod, _container(pod, kill.target))]
            if not running:
                return None
            name = kill.of(running)
            await self._kill(kill, namespace, pods[name])
        except CommandFailed:
            return None
        return name

    async def _kill(self, kill: Kill, namespace: str, pod: Object) -> None:
        name = pod["metadata"]["name"]
        container = _container(pod, kill.target)
        if kill.way == "process":
            await kill_container(namespace, name, container)
        # The kubelet restarts a container at once the first time and waits ever longer later: a new pod does not wait.
        again = kill.target not in SESSIONS and _status(pod, container).get("restartCount", 0) > 0
        if kill.way == "pod" or again:
            await kubectl("delete", "pod", name, "-n", namespace, "--grace-period=0", "--force", "--wait=false")


def _selector(component: str) -> str:
    return f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/component={component}"


def _container(pod: Object, target: str) -> str:
    return target if target in SESSIONS else str(pod["spec"]["containers"][0]["name"])


def _status(pod: Object, container: str) -> Object:
    status = pod.get("status", {})
    found = status.get("initContainerStatuses", []) + status.get("containerStatuses", [])
    return next((one for one in found if one["name"] == container), {})


def _runs(pod: Object, container: str) -> bool:
    return not pod["metadata"].get("deletionTimestamp") and "running" in _status(pod, container).get("state", {})
