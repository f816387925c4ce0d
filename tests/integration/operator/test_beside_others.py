"""Others touch the same objects: a GitOps tool, a person, somebody who means harm; what they wrote stays theirs."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_contracts.names import API_VERSION
from hermes_contracts.store_api import AgentState
from hermes_operator.cluster.client import Manifest
from hermes_operator.cluster.resources import PODS, SESSIONS
from tests.integration.operator.admin import until
from tests.integration.operator.harness import Installation
from tests.integration.operator.stories import FakeAgent, pods, reaches, session

pytestmark = pytest.mark.timeout(300)

LONGEST = "a" * 20 + "--" + "b" * 30
"""52 characters, the most that a name may have."""


def declared(installation: Installation, name: str, meta: Manifest, **spec: Any) -> Manifest:
    metadata = {"name": name, "namespace": installation.namespace, **meta}
    return {
        "apiVersion": API_VERSION,
        "kind": "HermesSession",
        "metadata": metadata,
        "spec": {"profileRef": {"name": "default"}, **spec},
    }


async def ready(installation: Installation, name: str, epoch: int = 1) -> FakeAgent:
    agent = await FakeAgent(installation, name, epoch).start()
    await agent.report(AgentState.READY)
    await reaches(installation, name, "Ready")
    return agent


async def test_beside_a_gitops_tool_and_a_persons_edit_everybody_keeps_their_fields(installation: Installation) -> None:
    await installation.up()
    wanted = declared(installation, "shell", {"labels": {"team": "a"}}, idleTimeoutSeconds=600, deletionPolicy="Purge")
    await installation.admin.apply(SESSIONS, wanted, manager="gitops")
    await ready(installation, "shell")

    async def labelled() -> bool:
        body = await session(installation, "shell")
        body["metadata"]["labels"]["person"] = "was-here"
        await installation.admin.replace(SESSIONS, body)
        return True

    await until(labelled, "a person has labelled the session")
    synced = await installation.admin.apply(SESSIONS, wanted, manager="gitops")
    assert synced["metadata"]["labels"] == {"team": "a", "person": "was-here"}
    assert synced["metadata"]["finalizers"] == ["hermes.run/purge"], "the tool does not take away what is ours"
    assert synced["spec"]["idleTimeoutSeconds"] == 600
    owners = {entry["manager"] for entry in synced["metadata"]["managedFields"] if "f:spec" in entry["fieldsV1"]}
    assert owners <= {"gitops"}, f"the operator owns no field of a spec: {owners}"
    again = await installation.admin.apply(SESSIONS, wanted, manager="gitops")
    assert again["metadata"]["resourceVersion"] == synced["metadata"]["resourceVersion"], "a sync in peace is no write"

    changed = declared(installation, "shell", {"labels": {"team": "a"}}, suspend=True, deletionPolicy="Purge")
    await installation.admin.apply(SESSIONS, changed, manager="gitops")
    await reaches(installation, "shell", "Draining")

    await installation.admin.delete(SESSIONS, installation.namespace, "shell")

    async def gone() -> bool:
        return await installation.admin.get(SESSIONS, installation.namespace, "shell") is None

    await until(gone, "the session is purged and its namespace can go", 60)


async def test_the_largest_annotations_and_the_longest_names_and_labels_do_no_harm(installation: Installation) -> None:
    await installation.up()
    hostile = {
        "labels": {"x" * 63: "y" * 63, "hermes.run/sid": "s" + "z" * 25, "hermes.run/epoch": "99", "hermes.run/pool": "p"},
        "annotations": {"note": "\u2028" * 40_000, "hermes.run/bus-key": "U" * 60_000},
    }
    await installation.admin.create(SESSIONS, declared(installation, LONGEST, hostile))
    agent = await ready(installation, LONGEST)
    assert await pods(installation) == [f"{LONGEST}-1"]
    body = await installation.admin.get(PODS, installation.namespace, f"{LONGEST}-1")
    assert body is not None
    assert body["metadata"]["labels"]["hermes.run/sid"] == agent.sid, "labels of a session say nothing about its pod"
    assert "hermes.run/pool" not in body["metadata"]["labels"]
    assert len(str(body)) < 30_000, "annotations of a session do not travel to its pod"
