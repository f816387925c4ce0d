"""An administrator's hands on the test cluster: namespaces, definitions, and anything a person does with kubectl."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from hermes_operator.cluster.client import ClusterClient, Manifest, Reach
from hermes_operator.cluster.errors import ClusterError
from hermes_operator.cluster.resources import Resource

ROOT = Path(__file__).resolve().parents[3]
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
ACCOUNTS = Resource("", "v1", "serviceaccounts")
QUOTAS = Resource("", "v1", "resourcequotas")
NODES = Resource("", "v1", "nodes")
LABELS = {"pod-security.kubernetes.io/enforce": "restricted", "hermes.run/test": "operator"}


def find_kubeconfig() -> Path | str:
    """Return the kubeconfig of the local cluster, or the reason why there is none."""
    named = os.environ.get("KUBECONFIG")
    if named:
        return Path(named) if Path(named).is_file() else f"KUBECONFIG names {named}, which is no file"
    found = subprocess.run(
        [sys.executable, "-m", "cluster", "kubeconfig"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tools")},
        capture_output=True,
        text=True,
        check=False,
    )
    path = Path(found.stdout.strip() or "none")
    return path if path.is_file() else "no local cluster: run `make cluster`"


class Admin(ClusterClient):
    """May do everything."""

    def _check(self, verb: str, resource: Resource, namespace: str) -> None:
        return

    @classmethod
    @asynccontextmanager
    async def connect(cls, kubeconfig: Path) -> AsyncIterator[Admin]:
        async with cls.open(kubeconfig, Reach("", frozenset())) as client:
            assert isinstance(client, Admin)
            yield client

    async def install_definitions(self) -> None:
        """Make sure that our kinds are served as the tree has them."""
        for path in sorted((ROOT / "crds").glob("*.yaml")):
            # As helm would: another manager of the same fields would stand in the way of its next upgrade.
            await self.apply(CRDS, yaml.safe_load(path.read_text()), manager="helm")
        for path in sorted((ROOT / "crds").glob("*.yaml")):
            name = yaml.safe_load(path.read_text())["metadata"]["name"]
            await self.until(lambda name=name: self._established(name), f"definition {name} is established")

    async def _established(self, name: str) -> bool:
        body = await self.get(CRDS, "", name)
        conditions = (body or {}).get("status", {}).get("conditions", [])
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    async def refusal(self, resource: Resource, manifest: Manifest) -> str:
        """Return why the API server refuses an object; empty when it does not."""
        try:
            await self.apply(resource, manifest)
        except ClusterError as error:
            return error.message
        return ""

    async def until(self, check: Callable[[], Any], what: str, seconds: float = 30.0) -> Any:
        """Wait until `check` returns something true, and return it."""
        return await until(check, what, seconds)


async def until(check: Callable[[], Any], what: str, seconds: float = 30.0) -> Any:
    """Wait until `check`, plain or async, returns something true."""
    deadline = time.monotonic() + seconds
    last: object = None
    while time.monotonic() < deadline:
        try:
            last = check()
            if asyncio.iscoroutine(last):
                last = await last
        except ClusterError as error:
            last = error.message
        else:
            if last:
                return last
        await asyncio.sleep(0.05)
    raise AssertionError(f"waited {seconds} s until {what}; last: {json.dumps(last, default=str)[:2000]}")
