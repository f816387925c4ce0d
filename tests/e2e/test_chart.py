"""The chart's life: upgrade with a conversation going on, uninstall, install again, and the conversation is still there."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from hermes_contracts.installation import INSTALLATION_SECRETS
from release import helm
from release.kubectl import get, get_all, run, until
from tests.e2e.framework.installation import NAMESPACE, RELEASE, VALUES, commands, install, namespace_of
from tests.e2e.framework.person import Person
from tests.e2e.framework.sessions import pod_running, session_of, shell

STORY = "chart"


@pytest.mark.timeout(500)
async def test_an_upgrade_keeps_conversations_and_keys() -> None:
    before = {s.suffix: await get("secret", s.name(RELEASE), NAMESPACE) for s in INSTALLATION_SECRETS}
    assert all(before.values()), [k for k, v in before.items() if v is None]
    session = f"upgrade-{uuid.uuid4().hex[:8]}"
    async with Person(STORY) as ann:
        await ann.say(session, "remember 31337")
        name = (await session_of(ann.namespace, session))["metadata"]["name"]
        pod = (await pod_running(ann.namespace, name))["metadata"]["name"]
        text = commands("touch running; until [ -e go ]; do sleep 0.1; done", say="after the upgrade")
        turn = asyncio.create_task(ann.say(session, text, key=f"turn-{session}"))
        await shell(ann.namespace, pod, "sandbox", "sh", "-c", "until [ -e /workspace/running ]; do sleep 0.1; done")
        await helm.install(RELEASE, NAMESPACE, {**VALUES, "logLevel": "debug"})
        await shell(ann.namespace, pod, "sandbox", "touch", "/workspace/go")
        assert await turn == "after the upgrade", "a new template restarts no busy session"
        (mine,) = [s for s in await ann.sessions() if session in str(s)]
        assert "31337" in (await ann.request("GET", f"/api/sessions/{mine['id']}/messages")).text
    for suffix, secret in before.items():
        now = await get("secret", f"{RELEASE}-{suffix}", NAMESPACE)
        assert now is not None
        assert secret is not None
        assert now["data"] == secret["data"], f"Secret {suffix} was overwritten"


@pytest.mark.timeout(500)
async def test_uninstall_keeps_data_and_install_finds_it() -> None:
    session = f"uninstall-{uuid.uuid4().hex[:8]}"
    async with Person(STORY) as ann:
        await ann.say(session, "remember 65537")
    await helm.uninstall(RELEASE, NAMESPACE)

    async def gone() -> bool:
        return not await get_all("pods", NAMESPACE, f"app.kubernetes.io/instance={RELEASE}")

    await until("our pods to be gone", gone, deadline_seconds=120)
    assert await get_all("persistentvolumeclaims", NAMESPACE), "volumes stay"
    assert await get("crd", "hermessessions.hermes.run", NAMESPACE), "definitions stay, and with them every object"
    await _namespace_can_go(namespace_of("rules"))
    await install()
    async with Person(STORY) as ann:
        await ann.say(session, "hello again")
        (mine,) = [s for s in await ann.sessions() if session in str(s)]
        assert "65537" in (await ann.request("GET", f"/api/sessions/{mine['id']}/messages")).text


async def _namespace_can_go(name: str) -> None:
    """Nothing of ours holds a namespace back when the operator is gone."""
    await run("kubectl", "delete", "namespace", name, "--wait", "--timeout=60s", timeout_seconds=70)


async def test_helm_test_passes() -> None:
    await run("helm", "test", RELEASE, "-n", NAMESPACE, timeout_seconds=120)
