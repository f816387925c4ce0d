"""A chat platform's servers as a pod beside the installation: the gateway and they reach each other by Service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from hermes_contracts.installation import PORT_WEBHOOKS
from release.forward import Forward, forwarded
from release.kubectl import Object, apply, kubectl
from tests.e2e.framework.installation import NAMESPACE, PLATFORM_PORT, RELEASE

FAKES = Path(__file__).resolve().parents[2] / "fakes"


@dataclass
class FakePlatform:
    """Says what its people are to do, and shows what they read."""

    forward: Forward

    async def act(self, **order: Any) -> Any:
        """Have somebody do something; returns what came of it."""
        async with httpx.AsyncClient(base_url=self.forward.url, timeout=180) as client:
            response = await client.post("/act", json=order)
        assert response.status_code == 200, response.text
        return response.json()["said"]

    async def state(self) -> dict[str, Any]:
        """Return everything the platform has."""
        async with httpx.AsyncClient(base_url=self.forward.url, timeout=60) as client:
            return dict((await client.get("/state")).json())


@asynccontextmanager
async def fake_platform(name: str, module: str, path: str) -> AsyncIterator[FakePlatform]:
    """Run `tests.fakes.<module>.run` in a pod called `name`; the app is at `path` of the gateway's public port."""
    await kubectl("delete", "pod", name, "-n", NAMESPACE, "--ignore-not-found", "--wait")
    await apply(_sources(name), *_pod(name, module, path), namespace=NAMESPACE)
    await kubectl("wait", "pod", name, "-n", NAMESPACE, "--for=condition=Ready", "--timeout=90s", timeout_seconds=100)
    async with forwarded(name, PLATFORM_PORT, NAMESPACE) as forward:
        yield FakePlatform(forward)


def _sources(name: str) -> Object:
    files = {path.name: path.read_text() for path in sorted(FAKES.glob("*.py"))}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": files}


def _pod(name: str, module: str, path: str) -> tuple[Object, Object]:
    start = (
        "import sys, asyncio; sys.path.insert(0, '/fakes'); "
        f"from tests.fakes.{module} import run; asyncio.run(run({PLATFORM_PORT}))"
    )
    items = [{"key": file.name, "path": f"tests/fakes/{file.name}"} for file in sorted(FAKES.glob("*.py"))]
    labels = {"app": name}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 10009, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "platform",
                    "image": "localhost/hermes-gateway:dev",
                    "imagePullPolicy": "Never",
                    "command": ["/app/bin/python3", "-B", "-c", start],
                    "env": [{"name": "APP_URL", "value": f"http://{RELEASE}-gateway.{NAMESPACE}.svc:{PORT_WEBHOOKS}{path}"}],
                    "readinessProbe": {"httpGet": {"path": "/state", "port": PLATFORM_PORT}, "periodSeconds": 1},
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    "volumeMounts": [{"name": "fakes", "mountPath": "/fakes", "readOnly": True}],
                }
            ],
            "volumes": [{"name": "fakes", "configMap": {"name": name, "items": items}}],
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": labels, "ports": [{"port": PLATFORM_PORT}]},
    }
    return pod, service
