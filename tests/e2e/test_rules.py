"""A bad object is refused at `kubectl apply`, with the field and the reason."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_contracts.names import API_VERSION
from release.kubectl import CommandFailed, Object, apply, kubectl
from tests.e2e.framework.installation import namespace_of, profile

STORY = "rules"
NAMESPACE = namespace_of(STORY)


def _session(name: str = "x", **spec: Any) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": "HermesSession",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"profileRef": {"name": "default"}, **spec},
    }


SCRIPTED = {"provider": "scripted", "name": "m"}
OPENAI = {"provider": "openai", "name": "m"}

REFUSED: list[tuple[str, Object, str]] = [
    ("no model", profile(STORY, "x", model=None), "model"),
    ("unknown provider", profile(STORY, "x", model={"provider": "acme", "name": "m"}), "provider"),
    ("provider without a key", profile(STORY, "x", model=OPENAI), "secretRef is required"),
    ("scripted with a key", profile(STORY, "x", model={**SCRIPTED, "secretRef": {"name": "s"}}), "needs no key"),
    ("address without scheme", profile(STORY, "x", model={**OPENAI, "baseUrl": "ftp://x"}), "baseUrl"),
    ("idle time of a second", profile(STORY, "x", idleTimeoutSeconds=1), "idleTimeoutSeconds"),
    ("persona too long", profile(STORY, "x", persona="p" * 20_000), "persona"),
    ("unknown toolset", profile(STORY, "x", toolsets=["nuclear"]), "toolsets"),
    ("bad quantity", profile(STORY, "x", sandbox={"resources": {"memory": "lots"}}), "memory"),
    ("unknown egress", profile(STORY, "x", sandbox={"egress": "Everywhere"}), "egress"),
    ("name too long", profile(STORY, "n" * 53), "at most 52 characters"),
    ("name with a dot", profile(STORY, "a.b"), "no dots"),
    ("unknown field", profile(STORY, "x", colour="blue"), "colour"),
    ("session without profile", _session(profileRef=None), "profileRef"),
    ("session with a bad channel", _session(key={"channel": "Not A Token"}), "channel"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "bad", "reason"), REFUSED, ids=[r[0] for r in REFUSED])
async def test_a_bad_object_is_refused_with_its_reason(what: str, bad: Object, reason: str) -> None:
    bad = {**bad, "spec": {k: v for k, v in bad["spec"].items() if v is not None}}
    with pytest.raises(CommandFailed) as caught:
        await apply(bad)
    assert reason in caught.value.stderr


async def test_what_a_session_is_cannot_be_changed() -> None:
    await apply(_session("fixed", key={"channel": "api", "chat": "one"}, owner="me", suspend=True))
    for change in ('{"spec":{"key":{"chat":"two"}}}', '{"spec":{"owner":"you"}}', '{"spec":{"profileRef":{"name":"p"}}}'):
        with pytest.raises(CommandFailed, match="cannot be changed"):
            await kubectl("patch", "hs", "fixed", "-n", NAMESPACE, "--type", "merge", "-p", change)
    await kubectl("patch", "hs", "fixed", "-n", NAMESPACE, "--type", "merge", "-p", '{"spec":{"suspend":false}}')


async def test_the_samples_are_accepted() -> None:
    from pathlib import Path

    samples = sorted((Path(__file__).parents[2] / "manifests" / "samples").glob("*.yaml"))
    assert samples
    for sample in samples:
        await kubectl("apply", "--dry-run=server", "-n", NAMESPACE, "-f", str(sample))
