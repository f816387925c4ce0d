"""The chart's life: upgrade with a conversation going on, uninstall, install again, and the conversation is still there."""

from __future__ import annotations

import pytest

from hermes_contracts.installation import INSTALLATION_SECRETS
from release import helm
from release.kubectl import get, get_all, run, until
from tests.e2e.framework.installation import NAMESPACE, RELEASE, VALUES, commands, install
from tests.e2e.framework.person import Person

STORY = "first-reply"


@pytest.mark.timeout(500)
async def test_an_upgrade_keeps_conversations_and_keys() -> None:
    before = {s.suffix: await get("secret", s.name(RELEASE), NAMESPACE) for s in INSTALLATION_SECRETS}
    assert all(before.values()), [k for k, v in before.items() if v is None]
    async with Person(STORY) as ann:
        await ann.say("upgrade", "remember 31337")
    await helm.install(RELEASE, NAMESPACE, {**VALUES, "logLevel": "debug"})
    async with Person(STORY) as ann:
        assert await ann.say("upgrade", commands("true", say="after the upgrade")) == "after the upgrade"
        (mine,) = [s for s in await ann.sessions() if "upgrade" in str(s)]
        assert "31337" in (await ann.request("GET", f"/api/sessions/{mine['id']}/messages")).text
    for suffix, secret in before.items():
        now = await get("secret", f"{RELEASE}-{suffix}", NAMESPACE)
        assert now is not None
        assert secret is not None
        assert now["data"] == secret["data"], f"Secret {suffix} was overwritten"


@pytest.mark.timeout(500)
async def test_uninstall_keeps_data_and_install_finds_it() -> None:
    async with Person(STORY) as ann:
        await ann.say("uninstall", "remember 65537")
    await helm.uninstall(RELEASE, NAMESPACE)

    async def gone() -> bool:
        return not await get_all("pods", NAMESPACE, f"app.kubernetes.io/instance={RELEASE}")

    await until("our pods to be gone", gone, deadline_seconds=120)
    assert await get_all("persistentvolumeclaims", NAMESPACE), "volumes stay"
    assert await get("crd", "hermessessions.hermes.run", NAMESPACE), "definitions stay, and with them every object"
    await install()
    async with Person(STORY) as ann:
        await ann.say("uninstall", "hello again")
        (mine,) = [s for s in await ann.sessions() if "uninstall" in str(s)]
        assert "65537" in (await ann.request("GET", f"/api/sessions/{mine['id']}/messages")).text


async def test_helm_test_passes() -> None:
    await run("helm", "test", RELEASE, "-n", NAMESPACE, timeout_seconds=120)
