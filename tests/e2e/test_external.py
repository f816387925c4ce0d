"""Who has a NATS and a PostgreSQL already: the chart installs neither and works on theirs, as docs/install.md says."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from hermes_contracts.installation import PORT_API
from release import helm
from release.forward import forwarded
from release.kubectl import Object, apply, condition, get, get_all, kubectl, until
from tests.e2e.framework.installation import RELEASE, commands

OURS = f"{RELEASE}-own"
"""Release and namespace of the installation."""
THEIRS = f"{RELEASE}-theirs"
"""Namespace of the bus and the database."""

NATS_CONF = """
listen: 0.0.0.0:4222
max_payload: 1MB
max_control_line: 64KB
jetstream { store_dir: /data, sync_interval: always }
include "auth.conf"
"""
PASSWORDS = {"owner-password": "theirs-owner", "service-password": "theirs-service"}
HARDENED = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.fixture
async def their_systems() -> AsyncIterator[None]:
    """Their namespace with a database that serves, and a bus that waits for our keys."""
    for namespace in (OURS, THEIRS):
        await kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait", timeout_seconds=120)
        await helm.make_namespace(namespace)
    await apply(
        *_server("postgres", 5432, "hermes-postgres", 999, _DATABASE), *_server("nats", 4222, "hermes-nats", 65532, _BUS)
    )
    await apply(_secret("nats-conf", {"nats.conf": NATS_CONF}, THEIRS))
    yield
    with contextlib.suppress(Exception):
        await helm.uninstall(OURS, OURS)
    await kubectl("delete", "namespace", OURS, THEIRS, "--wait=false")


@pytest.mark.timeout(400)
async def test_an_installation_on_somebodys_own_bus_and_database_answers(their_systems: None) -> None:
    await apply(_secret(f"{OURS}-postgres", PASSWORDS, OURS))
    values = {
        "external": {
            "bus": {
                "url": f"nats://nats.{THEIRS}.svc.cluster.local:4222",
                "namespace": THEIRS,
                "podLabels": {"app": "nats"},
            },
            "database": {"host": f"postgres.{THEIRS}.svc.cluster.local", "sslMode": "disable"},
        }
    }
    installing = asyncio.create_task(helm.install(OURS, OURS, values))
    keys: Object = await until("the operator to make the bus keys", lambda: get("secret", f"{OURS}-bus-server", OURS))
    await apply(_secret("nats-auth", {name: _plain(value) for name, value in keys["data"].items()}, THEIRS))
    await installing
    assert not await get_all("statefulsets", OURS), "nothing is bundled"

    await until("the first Profile to be ready", _ready)
    key = await helm.first_api_key(OURS, OURS)
    async with forwarded(f"{OURS}-gateway", PORT_API, OURS) as gateway:
        text = commands("echo from $((6 * 7))", say="it works on yours")
        body = {"model": "default", "messages": [{"role": "user", "content": text}]}
        async with httpx.AsyncClient(base_url=gateway.url, timeout=180) as client:
            response = await client.post("/v1/chat/completions", json=body, headers={"Authorization": f"Bearer {key}"})
    assert response.status_code == 200, response.text
    assert response.json()["choices"][0]["message"]["content"] == "it works on yours"
    query = "select count(*) from pg_tables where schemaname = 'hermes'"
    psql = ("psql", "-h", "127.0.0.1", "-U", "hermes_owner", "-d", "hermes", "-tAc", query)
    stored = await kubectl("exec", "-n", THEIRS, "deploy/postgres", "--", *psql)
    assert int(stored) > 10, "the tables are in their database"


async def _ready() -> bool:
    return condition(await get("profile", "default", OURS), "Ready").get("status") == "True"


_DATABASE: Object = {
    "env": [
        {"name": "POSTGRES_USER", "value": "hermes_owner"},
        {"name": "POSTGRES_DB", "value": "hermes"},
        {"name": "POSTGRES_PASSWORD", "value": PASSWORDS["owner-password"]},
        {"name": "PGPASSWORD", "value": PASSWORDS["owner-password"]},
        {"name": "PGDATA", "value": "/data/pgdata"},
    ],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
}
_BUS: Object = {
    "args": ["--config", "/etc/nats/nats.conf"],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "conf", "mountPath": "/etc/nats"}],
}


def _server(name: str, port: int, image: str, uid: int, container: Object) -> tuple[Object, Object]:
    """Return a Deployment of one pod and its Service; the pod starts when the Secrets that it mounts are there."""
    conf = {"sources": [{"secret": {"name": "nats-conf"}}, {"secret": {"name": "nats-auth"}}]}
    volumes: list[dict[str, Any]] = [{"name": "data", "emptyDir": {}}]
    if name == "nats":
        volumes.append({"name": "conf", "projected": conf})
    pod = {
        "securityContext": {"runAsUser": uid, "runAsGroup": uid, "fsGroup": uid},
        "containers": [
            {
                "name": name,
                "image": f"localhost/{image}:dev",
                "imagePullPolicy": "IfNotPresent",
                "securityContext": HARDENED,
                "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1},
                **container,
            }
        ],
        "volumes": volumes,
    }
    labels = {"app": name}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": THEIRS},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": THEIRS},
        "spec": {"selector": labels, "ports": [{"port": port}]},
    }
    return deployment, service


def _secret(name: str, values: dict[str, str], namespace: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "stringData": values,
    }


def _plain(value: str) -> str:
    return base64.b64decode(value).decode()
