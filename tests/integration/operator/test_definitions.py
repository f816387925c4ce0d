"""The definitions on a real API server: what is good is taken, what is bad is refused in words a person understands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes_contracts.names import API_VERSION
from hermes_operator.cluster.resources import PROFILES, SECRETS, SESSIONS, Resource
from tests.integration.operator.admin import ROOT, Admin

pytestmark = pytest.mark.timeout(180)
SAMPLES = sorted((ROOT / "manifests/samples").glob("*.yaml"))
RESOURCES = {"Profile": PROFILES, "HermesSession": SESSIONS, "Secret": SECRETS}
SCRIPTED = {"provider": "scripted", "name": "s"}


def profile(name: str = "demo", **spec: Any) -> dict[str, Any]:
    spec = {"model": SCRIPTED, **spec}
    return {"apiVersion": API_VERSION, "kind": "Profile", "metadata": {"name": name}, "spec": spec}


def made(name: str = "chat", **spec: Any) -> dict[str, Any]:
    spec = {"profileRef": {"name": "demo"}, **spec}
    return {"apiVersion": API_VERSION, "kind": "HermesSession", "metadata": {"name": name}, "spec": spec}


REFUSED: dict[str, tuple[Resource, dict[str, Any], str]] = {
    "a name that is too long": (PROFILES, profile("x" * 53), "at most 52 characters"),
    "a name with dots": (SESSIONS, made("a.b"), "no dots"),
    "a provider without a key": (
        PROFILES, profile(model={"provider": "openai", "name": "m"}), "model.secretRef is required",
    ),
    "a key for the scripted model": (
        PROFILES, profile(model={**SCRIPTED, "secretRef": {"name": "k"}}), "needs no key and has no address",
    ),
    "an unknown provider": (PROFILES, profile(model={"provider": "other", "name": "m"}), "supported values"),
    "an idle timeout of nothing": (PROFILES, profile(idleTimeoutSeconds=1), "greater than or equal to 5"),
    "a size that is no quantity": (
        PROFILES, profile(sandbox={"workspace": {"size": "1 GB"}}), "should match",
    ),
    "a persona without end": (PROFILES, profile(persona="x" * 16_385), "16384"),
    "a session of no Profile": (SESSIONS, made(profileRef={}), "profileRef.name"),
    "a channel that is none": (SESSIONS, made(key={"channel": "API!"}), "should match"),
}  # fmt: skip


def placed(manifest: dict[str, Any], namespace: str) -> dict[str, Any]:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
async def test_samples_are_taken(admin: Admin, namespace: str, path: Path) -> None:
    for document in yaml.safe_load_all(path.read_text()):
        assert await admin.refusal(RESOURCES[document["kind"]], placed(document, namespace)) == ""


async def test_bad_objects_are_refused_with_reasons(admin: Admin, namespace: str) -> None:
    for name, (resource, manifest, words) in REFUSED.items():
        found = await admin.refusal(resource, placed(manifest, namespace))
        assert words.lower() in found.lower(), f"{name}: {found or 'was taken'}"


async def test_what_a_session_is_cannot_be_changed(admin: Admin, namespace: str) -> None:
    key = {"channel": "api", "chat": "1"}
    await admin.apply(SESSIONS, placed(made(key=key, owner="ann"), namespace))
    changes: list[tuple[dict[str, Any], str]] = [
        ({"profileRef": {"name": "other"}, "key": key, "owner": "ann"}, "profileRef cannot be changed"),
        ({"key": {**key, "chat": "2"}, "owner": "ann"}, "key cannot be changed"),
        ({"key": key, "owner": "bob"}, "owner cannot be changed"),
    ]
    for spec, words in changes:
        assert words in await admin.refusal(SESSIONS, placed(made(**spec), namespace))
    assert await admin.refusal(SESSIONS, placed(made(key=key, owner="ann", suspend=True), namespace)) == ""


async def test_defaults_are_filled_in_and_unknown_fields_dropped(admin: Admin, namespace: str) -> None:
    body = await admin.apply(PROFILES, placed(profile(), namespace))
    assert body["spec"]["sandbox"]["egress"] == "None"
    assert body["spec"]["budgets"]["maxIterations"] == 90
    assert body["spec"]["toolsets"] == ["terminal", "file"]
