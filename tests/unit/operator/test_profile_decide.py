"""What is said of a Profile, and what the gateway may know of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hermes_contracts.crd.profile import ProfileSpec, ProfileStatus
from hermes_contracts.names import PROVIDER_SECRET_TYPE
from hermes_operator.profiles import read_secret
from hermes_operator.reconcile.model import Unknown
from hermes_operator.reconcile.profile import ObservedProfile, SecretFacts, decide_profile, worth_writing
from tests.unit.operator.builders import NOW, profile

GOOD = SecretFacts(PROVIDER_SECRET_TYPE, True, ("api.openai.com",))


def seen(secret: Any = None, **model: Any) -> ObservedProfile:
    settings = {"provider": "openai", "name": "m", "secretRef": {"name": "key"}, **model}
    spec = ProfileSpec.model_validate({"model": settings})
    return ObservedProfile(profile(spec=spec), "ns-uid", True, secret, live_sessions=1, asleep_sessions=2)


def ready(observed: ObservedProfile) -> tuple[str, str, str]:
    plan = decide_profile(observed, NOW)
    [found] = [c for c in plan.status.conditions if c.type == "Ready"]
    return found.status, found.reason, found.message


@pytest.mark.parametrize(
    ("secret", "status", "reason", "words"),
    [
        (GOOD, "True", "Ready", ""),
        (None, "False", "SecretNotFound", "'key'"),
        (replace(GOOD, type="Opaque"), "False", "SecretInvalid", "hermes.run/provider"),
        (replace(GOOD, has_key=False), "False", "SecretInvalid", "api-key"),
        (replace(GOOD, hosts=()), "False", "SecretInvalid", "hosts"),
        (replace(GOOD, hosts=("other.example",)), "False", "SecretInvalid", "api.openai.com"),
        (Unknown("no answer"), "Unknown", "SecretUnknown", "no answer"),
    ],
)
def test_a_profile_is_as_ready_as_its_secret(secret: Any, status: str, reason: str, words: str) -> None:
    found = ready(seen(secret))
    assert found[:2] == (status, reason)
    assert words in found[2]


def test_a_key_goes_to_named_hosts_only() -> None:
    assert ready(seen(GOOD, baseUrl="https://evil.example/v1"))[1] == "SecretInvalid"
    assert ready(seen(replace(GOOD, hosts=("llm.example",)), baseUrl="https://LLM.example/v1"))[1] == "Ready"


def test_the_scripted_model_says_what_it_is() -> None:
    plan = decide_profile(seen(provider="scripted", secretRef=None), NOW)
    assert {c.type: c.reason for c in plan.status.conditions}["Scripted"] == "ScriptedModel"
    assert plan.projection is not None
    assert plan.projection.ready


def test_what_is_unknown_changes_neither_verdict_nor_projection() -> None:
    plan = decide_profile(seen(Unknown("no answer")), NOW)
    assert plan.verdict is None
    assert plan.projection is None


def test_a_namespace_that_is_not_restricted_is_a_warning_only() -> None:
    plan = decide_profile(replace(seen(GOOD), namespace_restricted=False), NOW)
    found = {c.type: (c.status, c.reason) for c in plan.status.conditions}
    assert found["NamespaceRestricted"] == ("False", "NamespaceNotRestricted")
    assert found["Ready"][0] == "True"


def test_a_policy_that_could_not_be_made_keeps_sessions_from_starting() -> None:
    plan = decide_profile(replace(seen(GOOD), policies=Unknown("forbidden")), NOW)
    assert plan.verdict is not None
    assert not plan.verdict.ready


def test_counts_alone_are_written_once_a_minute() -> None:
    first = decide_profile(seen(GOOD), NOW).status
    more = decide_profile(replace(seen(GOOD), live_sessions=9), NOW).status
    assert worth_writing(ProfileStatus(), first, NOW, NOW)
    assert not worth_writing(first, first, 0, NOW)
    assert not worth_writing(first, more, NOW - 59, NOW)
    assert worth_writing(first, more, NOW - 60, NOW)


def test_a_secret_is_read_without_its_key() -> None:
    body = {"type": PROVIDER_SECRET_TYPE, "data": {"api-key": "c2VjcmV0", "hosts": "QS5leGFtcGxlLCBiLmV4YW1wbGU="}}
    found = read_secret(body)
    assert found == SecretFacts(PROVIDER_SECRET_TYPE, True, ("a.example", "b.example"))
    assert "c2VjcmV0" not in repr(found)
    assert read_secret({"type": "Opaque"}) == SecretFacts("Opaque", False, ())
