"""The definitions on a real API server: what is good is taken, what is bad is refused in words a person understands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes_contracts.names import API_VERSION
from hermes_operator.cluster.resources import CRON_JOBS, PROFILES, SECRETS, SESSIONS, Resource
from tests.integration.operator.admin import ROOT, Admin

pytestmark = pytest.mark.timeout(180)
SAMPLES = sorted((ROOT / "manifests/samples").glob("*.yaml"))
RESOURCES = {"Profile": PROFILES, "HermesSession": SESSIONS, "HermesCronJob": CRON_JOBS, "Secret": SECRETS}
SCRIPTED = {"provider": "scripted", "name": "s"}
OPENAI = {"provider": "openai", "name": "m", "secretRef": {"name": "k"}}


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
    "an unknown provider": (
        PROFILES, profile(model={"provider": "other", "name": "m", "secretRef": {"name": "k"}}),
        "neither a built-in provider nor one of spec.providers",
    ),
    "a fallback at an unknown provider": (
        PROFILES, profile(model={**OPENAI, "fallbacks": [{"provider": "other", "name": "m"}]}),
        "a fallback's provider is neither",
    ),
    "a scripted fallback": (
        PROFILES, profile(model={**OPENAI, "fallbacks": [SCRIPTED]}), "never a fallback for a real one",
    ),
    "a choice at an unknown provider": (
        PROFILES, profile(model={**OPENAI, "choices": [{"provider": "other", "name": "n"}]}),
        "a choice's provider is neither",
    ),
    "a scripted choice beside a real model": (
        PROFILES, profile(model={**OPENAI, "choices": [SCRIPTED]}), "no choice beside a real one",
    ),
    "two choices of one name": (
        PROFILES, profile(model={**OPENAI, "choices": [{**OPENAI, "name": "n"}, {**OPENAI, "name": "n"}]}),
        "give each a name of its own",
    ),
    "a choice that is the model": (PROFILES, profile(model={**OPENAI, "choices": [OPENAI]}), "give each a name of its own"),
    "choices where codex runs the turns": (
        PROFILES,
        profile(
            model={**OPENAI, "apiMode": "codex_app_server", "choices": [{**OPENAI, "name": "n"}]},
            toolsets=["terminal", "file"],
        ),
        "remove model.choices",
    ),
    "an own provider with a built-in name": (
        PROFILES, profile(model=OPENAI, providers=[{"name": "openai", "baseUrl": "https://x.example"}]),
        "may not be named like a built-in provider",
    ),
    "an own provider whose key nobody names": (
        PROFILES,
        profile(model={"provider": "own", "name": "m"}, providers=[{"name": "own", "baseUrl": "https://x.example"}]),
        "model.secretRef is required",
    ),
    "an address for the scripted model": (
        PROFILES, profile(model={**SCRIPTED, "baseUrl": "https://x.example"}), "needs no key and has no address",
    ),
    "a program for turns that nobody hands over": (
        PROFILES, profile(model={**OPENAI, "codex": {"command": ["codex"]}}), "set model.apiMode to codex_app_server",
    ),
    "turns handed over without a shell": (
        PROFILES, profile(model={**OPENAI, "apiMode": "codex_app_server"}, toolsets=["file"]),
        "toolsets must hold terminal and file",
    ),
    "a provider that speaks codex": (
        PROFILES,
        profile(
            model=OPENAI,
            providers=[{"name": "own", "baseUrl": "https://x.example", "apiMode": "codex_app_server"}],
        ),
        "supported values",
    ),
    "an archive that is too large": (
        PROFILES, profile(sandbox={"workspace": {"kind": "Archive", "size": "1025Mi"}}), "holds at most 1Gi",
    ),
    "an address that is none": (PROFILES, profile(model={**OPENAI, "baseUrl": "ftp://x.example"}), "should match"),
    "a wire format that nobody speaks": (PROFILES, profile(model={**OPENAI, "apiMode": "soap"}), "supported values"),
    "five fallbacks": (PROFILES, profile(model={**OPENAI, "fallbacks": [OPENAI] * 5}), "at most 4 items"),
    "seventeen providers": (
        PROFILES,
        profile(model=OPENAI, providers=[{"name": f"p{n}", "baseUrl": "https://x.example"} for n in range(17)]),
        "at most 16 items",
    ),
    "seventeen hints": (PROFILES, profile(platformHints={f"c{n}": "x" for n in range(17)}), "at most 16"),
    "a hint without end": (PROFILES, profile(platformHints={"api": "x" * 2001}), "2000"),
    "an amount in euros": (PROFILES, profile(budgets={"maxDayUsd": "5 EUR"}), "should match"),
    "a budget of a number": (PROFILES, profile(budgets={"maxDayUsd": 5}), "expected string"),
    "a window that is too small": (
        PROFILES, profile(model={**OPENAI, "facts": {"contextWindow": 8000}}), "greater than or equal to 16000",
    ),
    "a threshold of everything": (PROFILES, profile(compression={"thresholdPercent": 100}), "less than or equal to 95"),
    "a deletion policy that is none": (SESSIONS, made(deletionPolicy="Maybe"), "supported values"),
    "an idle timeout of nothing": (PROFILES, profile(idleTimeoutSeconds=1), "greater than or equal to 5"),
    "a size that is no quantity": (
        PROFILES, profile(sandbox={"workspace": {"size": "1 GB"}}), "should match",
    ),
    "a chat account twice": (
        PROFILES, profile(channels=[{"channel": "slack", "account": "acme"}] * 2), "an account is there twice",
    ),
    "a platform that nobody serves": (PROFILES, profile(channels=[{"channel": "fax", "account": "a"}]), "supported values"),
    "a command of chats that there is not": (
        PROFILES, profile(channels=[{"channel": "slack", "account": "a", "direct": {"userCommands": ["stauts"]}}]),
        "should match",
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
    kept = made(key=key, owner="ann", deletionPolicy="Purge")
    assert await admin.refusal(SESSIONS, placed(kept, namespace)) == ""


async def test_defaults_are_filled_in_and_unknown_fields_dropped(admin: Admin, namespace: str) -> None:
    body = await admin.apply(PROFILES, placed(profile(), namespace))
    assert body["spec"]["sandbox"]["egress"] == "None"
    assert body["spec"]["budgets"]["maxIterations"] == 90
    assert body["spec"]["toolsets"] == ["terminal", "file"]
    assert body["spec"]["compression"] == {"enabled": True, "protectFirst": 3, "protectLast": 20}
    assert body["spec"]["contextFiles"] == {"enabled": True, "maxCharacters": 20_000}
    assert body["spec"]["model"]["reasoningEffort"] == "Default"


async def test_the_largest_profile_costs_the_api_server_no_more_than_it_allows(admin: Admin, namespace: str) -> None:
    own = [{"name": f"p{n}", "baseUrl": "https://x.example", "secretRef": {"name": "k"}} for n in range(16)]
    fallbacks = [{"provider": f"p{n}", "name": "m"} for n in range(4)]
    hints = {f"c{n}": "x" * 2000 for n in range(16)}
    people = [f"U{n:063}" for n in range(200)]
    place = {"allowUsers": people, "admins": people[:50], "userCommands": ["whoami"] * 64}
    rooms = [{"id": f"C{n:063}", "allowUsers": people[:50]} for n in range(32)]
    channels = [
        {"channel": "slack", "account": f"{'a' * 60}{n}", "direct": place, "groups": {**place, "chats": rooms}}
        for n in range(6)
    ]
    large = profile(
        channels=channels,
        persona="x" * 16_384,
        providers=own,
        model={"provider": "p15", "name": "m", "fallbacks": fallbacks, "auxiliary": {"title": fallbacks[0]}},
        platformHints=hints,
        budgets={"maxDayUsd": "999999999.999999999", "maxDayTokens": 1_000_000_000_000},
    )
    assert await admin.refusal(PROFILES, placed(large, namespace)) == ""
