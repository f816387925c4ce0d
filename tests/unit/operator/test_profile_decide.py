"""What is said of a Profile, and what the gateway may know of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hermes_contracts.crd.profile import ProfileSpec, ProfileStatus
from hermes_contracts.names import PROVIDER_SECRET_TYPE
from hermes_operator.reconcile.conditions import turned_bad
from hermes_operator.reconcile.model import Unknown
from hermes_operator.reconcile.profile import ObservedProfile, Spend, decide_profile, worth_writing
from hermes_operator.reconcile.provider_secrets import SecretFacts
from hermes_operator.secret_watch import read_secret
from tests.unit.operator.builders import NOW, profile

KEY = frozenset({"api-key", "hosts"})
GOOD = SecretFacts(PROVIDER_SECRET_TYPE, KEY, ("api.openai.com",))


def seen(secret: Any = None, *, others: dict[str, Any] | None = None, extra: Any = None, **model: Any) -> ObservedProfile:
    settings = {"provider": "openai", "name": "m", "secretRef": {"name": "key"}, **model}
    spec = ProfileSpec.model_validate({"model": settings, **(extra or {})})
    secrets = {"key": secret, **(others or {})}
    return ObservedProfile(profile(spec=spec), "ns-uid", True, secrets, live_sessions=1, asleep_sessions=2)


def conditions(observed: ObservedProfile) -> dict[str, tuple[str, str, str]]:
    return {c.type: (c.status, c.reason, c.message) for c in decide_profile(observed, NOW).status.conditions}


def ready(observed: ObservedProfile) -> tuple[str, str, str]:
    return conditions(observed)["Ready"]


@pytest.mark.parametrize(
    ("secret", "status", "reason", "words"),
    [
        (GOOD, "True", "Ready", ""),
        (None, "False", "SecretNotFound", "model.secretRef: there is no Secret 'key'"),
        (replace(GOOD, type="Opaque"), "False", "SecretInvalid", "hermes.run/provider"),
        (replace(GOOD, keys=frozenset()), "False", "SecretInvalid", "api-key"),
        (replace(GOOD, keys=KEY | {"oauth-refresh-token"}), "False", "SecretInvalid", "keep one of them"),
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


BEDROCK = SecretFacts(
    PROVIDER_SECRET_TYPE,
    frozenset({"aws-access-key-id", "aws-secret-access-key", "region", "hosts"}),
    ("bedrock-runtime.eu-central-1.amazonaws.com",),
    region="eu-central-1",
)
LOGIN = SecretFacts(
    PROVIDER_SECRET_TYPE,
    frozenset({"oauth-refresh-token", "oauth-token-url", "oauth-client-id", "hosts"}),
    ("api.openai.com", "auth.example"),
    token_host="auth.example",
)


@pytest.mark.parametrize(
    ("provider", "secret", "words"),
    [
        ("bedrock", BEDROCK, ""),
        ("bedrock", replace(BEDROCK, region="us-east-1"), "us-east-1"),
        ("bedrock", replace(BEDROCK, keys=BEDROCK.keys - {"region"}, region=""), "'region'"),
        ("bedrock", replace(BEDROCK, keys=KEY), "'aws-access-key-id'"),
        ("openai", LOGIN, ""),
        ("openai", replace(LOGIN, hosts=("api.openai.com",)), "auth.example"),
        ("openai", replace(LOGIN, keys=LOGIN.keys - {"oauth-client-id"}), "oauth-client-id"),
        ("openai", BEDROCK, "'api-key'"),
    ],
)
def test_signatures_and_logins_need_their_own_keys(provider: str, secret: SecretFacts, words: str) -> None:
    found = ready(seen(secret, provider=provider))
    assert found[0] == ("False" if words else "True")
    assert words in found[2]


OWN = {"providers": [{"name": "house", "baseUrl": "https://llm.example/v1", "secretRef": {"name": "house-key"}}]}
FALLBACK = {"provider": "groq", "name": "f", "secretRef": {"name": "groq-key"}}


@pytest.mark.parametrize(
    ("observed", "reason", "words"),
    [
        (seen(GOOD, fallbacks=[FALLBACK], others={"groq-key": None}), "SecretNotFound", "model.fallbacks[0].secretRef"),
        (seen(GOOD, fallbacks=[{"provider": "groq", "name": "f"}]), "SecretMissing", "fallbacks[0].secretRef is not set"),
        (
            seen(GOOD, auxiliary={"title": FALLBACK}, others={"groq-key": replace(GOOD, type="Opaque")}),
            "SecretInvalid", "model.auxiliary.title.secretRef: Secret 'groq-key'",
        ),
        (
            seen(GOOD, auxiliary={"vision": FALLBACK}, others={"groq-key": None}),
            "SecretNotFound", "model.auxiliary.vision.secretRef",
        ),
        (seen(GOOD, auxiliary={"vision": {"provider": "scripted", "name": "s"}}), "ProviderInvalid",
         "model.auxiliary.vision.provider"),
        (seen(GOOD, fallbacks=[{"provider": "house", "name": "h"}], extra=OWN, others={"house-key": None}),
         "SecretNotFound", "providers[0].secretRef"),
        (seen(GOOD, extra=OWN, others={"house-key": None}), "SecretNotFound", "providers[0].secretRef"),
        (
            seen(
                GOOD, fallbacks=[{**FALLBACK, "apiMode": "codex_app_server"}],
                others={"groq-key": replace(GOOD, hosts=("api.groq.com",))},
            ),
            "ProviderInvalid", "model.fallbacks[0].apiMode",
        ),
        (seen(GOOD, auxiliary={"compression": {"provider": "scripted", "name": "s"}}), "ProviderInvalid",
         "model.auxiliary.compression.provider"),
    ],
)  # fmt: skip
def test_a_stand_in_without_its_key_is_named_and_stops_nobody(observed: ObservedProfile, reason: str, words: str) -> None:
    found = conditions(observed)
    assert found["Ready"][0] == "True"
    assert found["SecretsReady"][:2] == ("False", reason)
    assert words in found["SecretsReady"][2]


def test_a_main_model_of_ones_own_provider_uses_that_providers_secret() -> None:
    house = replace(GOOD, hosts=("llm.example",))
    model = {"provider": "house", "secretRef": None}
    assert ready(seen(extra=OWN, others={"house-key": house}, **model))[0] == "True"
    missing = ready(seen(extra=OWN, others={"house-key": None}, **model))
    assert missing[1] == "SecretNotFound"
    assert "providers[0].secretRef" in missing[2]


def test_what_was_spent_is_said_as_far_as_it_is_known() -> None:
    spent = decide_profile(replace(seen(GOOD), spend=Spend(1_234_567_890, 50_000_000_000)), NOW).status
    assert (spent.spent_today_usd, spent.spent_month_usd) == ("1.234567", "50.00")
    later = replace(seen(GOOD), view=profile(spec=seen(GOOD).view.spec, status=spent))
    assert decide_profile(later, NOW).status.spent_today_usd == "1.234567"


def test_a_model_whose_turns_a_program_runs_needs_its_key_as_any_other() -> None:
    assert ready(seen(GOOD, apiMode="codex_app_server"))[0] == "True"
    assert ready(seen(None, apiMode="codex_app_server"))[1] == "SecretNotFound"


def test_the_scripted_model_says_what_it_is() -> None:
    plan = decide_profile(seen(provider="scripted", secretRef=None), NOW)
    assert {c.type: c.reason for c in plan.status.conditions}["Scripted"] == "ScriptedModel"
    assert plan.projection is not None
    assert plan.projection.ready


@pytest.mark.parametrize(("mode", "said"), [("Isolated", "in a sandbox"), ("Off", "is Off"), ("Manual", ""), ("Smart", "")])
def test_where_nobody_is_asked_before_commands_it_is_said(mode: str, said: str) -> None:
    plan = decide_profile(seen(GOOD, extra={"approvals": {"mode": mode}}), NOW)
    found = {c.type: (c.status, c.reason, c.message) for c in plan.status.conditions}.get("CommandsUnasked")
    assert (found is not None) == bool(said)
    assert found is None or (found[:2] == ("True", mode) and said in found[2] and "spec.approvals.deny" in found[2])
    assert turned_bad((), plan.status.conditions) == [], "no warning: it was chosen"
    assert plan.projection is not None and plan.projection.approvals == mode


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
    assert found == SecretFacts(PROVIDER_SECRET_TYPE, KEY, ("a.example", "b.example"))
    assert "c2VjcmV0" not in repr(found)
    assert "secret" not in repr(found)
    assert read_secret({"type": "Opaque"}) == SecretFacts("Opaque", frozenset(), ())


def test_what_a_profile_says_of_chats_is_projected_and_looked_at() -> None:
    place = {"direct": {"allowUsers": ["anna"]}, "groups": {"chats": [{"id": "general", "allowUsers": ["U1"]}]}}
    said = {"channels": [{"channel": "slack", "account": "acme"}, {"channel": "slack", "account": "other", **place}]}
    observed = seen(GOOD, extra=said)
    found = conditions(observed)
    assert found["ChannelConflict"][:2] == ("False", "NoConflict")
    assert found["ChannelsValid"][:2] == ("False", "NotAnId")
    assert found["ChannelsValid"][2] == (
        "channels[1].direct.allowUsers: 'anna' is no id; one looks like U0123ABCD; "
        "channels[1].groups.chats: 'general' is no id; one looks like C0123ABCD"
    )
    plan = decide_profile(observed, NOW)
    assert plan.projection is not None
    assert plan.projection.channels == observed.view.spec.channels
    older = (observed.view.created_at - 1, "older", observed.view.spec.channels[:1])
    told = decide_profile(replace(observed, rivals=(older,)), NOW).status.conditions
    conflict = next(c for c in told if c.type == "ChannelConflict")
    assert (conflict.status, conflict.reason) == ("True", "ClaimedBefore")
    assert "every direct chat of slack:acme belongs to the older Profile older" in conflict.message
    assert [c.type for c in turned_bad((), told)].count("ChannelConflict") == 1
    assert "ChannelConflict" not in conditions(seen(GOOD))
