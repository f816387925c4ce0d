"""Something is missing or wrong: a condition and an Event say what, and it heals by itself when the cause goes."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from release.kubectl import Object, apply, kubectl
from tests.e2e.framework.installation import namespace_of, profile
from tests.e2e.framework.person import Person
from tests.e2e.framework.sessions import condition_of, events_of, pod_running, session_of

STORY = "broken"
NAMESPACE = namespace_of(STORY)


@pytest.fixture(autouse=True)
async def clean() -> None:
    """Take away what an earlier run left."""
    await kubectl("delete", "resourcequota,hs", "--all", "-n", NAMESPACE, "--wait")
    await kubectl("delete", "profile", "late", "claim", "-n", NAMESPACE, "--ignore-not-found")
    await kubectl("delete", "secret", "provider-key", "-n", NAMESPACE, "--ignore-not-found")
    await kubectl("delete", "pods", "--all", "-n", NAMESPACE, "--wait")


def _secret(**data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "provider-key", "namespace": NAMESPACE},
        "type": "hermes.run/provider",
        "stringData": data,
    }


async def test_a_missing_secret_is_named_and_heals() -> None:
    model = {"provider": "openai", "name": "m", "secretRef": {"name": "provider-key"}}
    await apply(profile(STORY, "late", model=model))
    await condition_of(NAMESPACE, "profile", "late", "Ready", status="False", says="provider-key")
    await apply(_secret(**{"api-key": "sk-e2e-not-a-real-key", "hosts": "api.example.com"}))
    await condition_of(NAMESPACE, "profile", "late", "Ready", status="False")
    await apply(_secret(**{"api-key": "sk-e2e-not-a-real-key", "hosts": "api.openai.com"}))
    await condition_of(NAMESPACE, "profile", "late", "Ready", status="True")
    described = await kubectl("describe", "profile", "late", "-n", NAMESPACE)
    assert "sk-e2e" not in described


async def test_an_image_that_cannot_be_pulled_is_explained_and_heals() -> None:
    await apply(profile(STORY, "claim", sandbox={"image": "localhost/no-such-image:1", "resources": {"cpu": "20m"}}))
    await condition_of(NAMESPACE, "profile", "claim", "Ready", status="True")
    async with Person(STORY) as ann:
        chat = f"image-{uuid.uuid4().hex}"
        waiting = asyncio.create_task(ann.say(chat, "hello", profile="claim"))
        name = (await session_of(NAMESPACE, chat))["metadata"]["name"]
        await condition_of(NAMESPACE, "hermessession", name, "SandboxReady", status="False", says="no-such-image")
        assert await events_of(NAMESPACE, name)
        await apply(profile(STORY, "claim", sandbox={"resources": {"cpu": "20m"}}))
        assert await waiting
        await pod_running(NAMESPACE, name)
        await condition_of(NAMESPACE, "hermessession", name, "Ready", status="True")


async def test_a_quota_that_forbids_the_pod_is_explained_and_heals() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "tight", "namespace": NAMESPACE},
        "spec": {"hard": {"pods": "0"}},
    }
    await apply(quota)
    async with Person(STORY) as ann:
        chat = f"quota-{uuid.uuid4().hex}"
        waiting = asyncio.create_task(ann.say(chat, "hello"))
        name = (await session_of(NAMESPACE, chat))["metadata"]["name"]
        await condition_of(NAMESPACE, "hermessession", name, "Ready", status="False", says="quota")
        await kubectl("delete", "resourcequota", "tight", "-n", NAMESPACE)
        assert await waiting
