"""Fixtures over the harness."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes_operator.cluster.resources import NAMESPACES
from tests.integration.operator.admin import ACCOUNTS, LABELS, NODES, Admin, find_kubeconfig, until
from tests.integration.operator.harness import Installation, restricted_kubeconfig


@pytest.fixture(scope="session")
def kubeconfig() -> Path:
    found = find_kubeconfig()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture
async def admin(kubeconfig: Path) -> AsyncIterator[Admin]:
    async with Admin.connect(kubeconfig) as client:
        await client.install_definitions()
        yield client


@pytest.fixture
async def namespace(admin: Admin) -> AsyncIterator[str]:
    name = f"hermes-test-{secrets.token_hex(4)}"
    await admin.apply(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": LABELS}})
    await until(lambda: admin.get(ACCOUNTS, name, "default"), "the default service account is there", 120)
    yield name
    await admin.delete(NAMESPACES, "", name)


@pytest.fixture
async def image(admin: Admin) -> str:
    """An image that every node has, whose process waits and reads no arguments."""
    for node in await admin.list(NODES, ""):
        for entry in node["status"].get("images") or []:
            for name in entry.get("names") or []:
                if "/pause:" in name:
                    return str(name)
    pytest.skip("no node lists a pause image")


@pytest.fixture
async def installation(
    admin: Admin, namespace: str, image: str, kubeconfig: Path, tmp_path: Path
) -> AsyncIterator[Installation]:
    """An installation whose operator has the rights of the chart's roles and no others."""
    operator_config = await restricted_kubeconfig(admin, namespace, kubeconfig, tmp_path)
    made = Installation(admin, namespace, image, operator_config, tmp_path)
    yield made
    await made.close()
