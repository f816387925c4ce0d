"""Two Profiles that claim the same chats: the later one is told so, and the gateway is told what each of them says."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_contracts import projection, subjects
from hermes_contracts.bus_permissions import Role
from hermes_contracts.names import API_VERSION
from hermes_contracts.projection import ProfileProjection
from hermes_operator.cluster.resources import PROFILES
from tests.integration.operator.admin import until
from tests.integration.operator.harness import Installation
from tests.integration.operator.stories import change_profile

pytestmark = pytest.mark.timeout(300)

ROOM = [{"channel": "slack", "account": "acme", "groups": {"chats": [{"id": "C0OPS"}]}, "direct": {"enabled": False}}]


async def _conflict(installation: Installation, name: str) -> tuple[str, str]:
    body = await installation.admin.get(PROFILES, installation.namespace, name)
    assert body is not None
    found = [c for c in body.get("status", {}).get("conditions", []) if c["type"] == "ChannelConflict"]
    return (found[0]["status"], found[0]["message"]) if found else ("", "")


async def test_the_later_of_two_profiles_is_told(installation: Installation) -> None:
    await installation.up()
    await until(lambda: installation.admin.get(PROFILES, installation.namespace, "default"), "the first Profile is there")
    spec: dict[str, Any] = {"model": {"provider": "scripted", "name": "scripted"}, "channels": ROOM}
    metadata = {"name": "ops", "namespace": installation.namespace}
    later = {"apiVersion": API_VERSION, "kind": "Profile", "metadata": metadata, "spec": spec}
    await installation.admin.create(PROFILES, later)

    async def says(name: str, status: str) -> bool:
        return (await _conflict(installation, name))[0] == status

    await until(lambda: says("ops", "False"), "it is alone")
    await change_profile(installation, channels=ROOM)
    await until(lambda: says("ops", "True"), "the later one is told at once")
    assert (await _conflict(installation, "ops"))[1] == (
        "channels: room C0OPS of slack:acme belongs to the older Profile default; nothing from there comes to this Profile "
        "until one of the two gives it up"
    )
    assert await says("default", "False")
    gateway = await installation.client(Role.GATEWAY)
    bucket = await gateway.jetstream().key_value(subjects.PROFILES_BUCKET)
    for name in ("default", "ops"):
        entry = await bucket.get(projection.key(installation.namespace, name))
        told = ProfileProjection.model_validate_json(entry.value or b"")
        assert [chat.id for chat in told.channels[0].groups.chats] == ["C0OPS"]
    await change_profile(installation, channels=[])
    await until(lambda: says("ops", "False"), "and it is told when the older one gives it up")
    await until(lambda: says("default", ""), "who claims nothing has no such condition")
