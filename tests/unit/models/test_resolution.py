"""From the words of a Profile to a provider, a wire format and an address, and every refusal in between."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_contracts.crd.profile import ProfileSpec
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.model_api import Purpose
from hermes_gateway.models.provider_secret import ProviderSecret, read_secret
from hermes_gateway.models.resolution import address, fits, places, route
from hermes_gateway.models.routing import candidate, own_price

SCRIPTED_URL = "http://scripted:8646/v1"
REF = {"secretRef": {"name": "key"}}
LOCAL = {"name": "local", "baseUrl": "https://models.example/v1", "secretRef": {"name": "local-key"}}


def spec(model: dict[str, Any], **fields: Any) -> ProfileSpec:
    return ProfileSpec.model_validate({"model": {"name": "m", **model}, **fields})


def secret(hosts: str, **data: str) -> ProviderSecret:
    return read_secret("key", "hermes.run/provider", {"api-key": "k", **data, "hosts": hosts})


def aws(**data: str) -> ProviderSecret:
    keys = {"aws-access-key-id": "AKIA", "aws-secret-access-key": "s", "region": "eu-central-1"}
    hosts = "bedrock-runtime.eu-central-1.amazonaws.com"
    return read_secret("key", "hermes.run/provider", {**keys, "hosts": hosts, **data})


@pytest.mark.parametrize(
    ("model", "mode", "url", "secret_name"),
    [
        ({"provider": "openai", **REF}, "chat_completions", "https://api.openai.com/v1", "key"),
        ({"provider": "openai", "apiMode": "responses", **REF}, "responses", "https://api.openai.com/v1", "key"),
        ({"provider": "anthropic", **REF}, "anthropic_messages", "https://api.anthropic.com", "key"),
        ({"provider": "bedrock", **REF}, "bedrock_converse", "https://bedrock-runtime.{region}.amazonaws.com", "key"),
        ({"provider": "groq", **REF}, "chat_completions", "https://api.groq.com/openai/v1", "key"),
        (
            {"provider": "openai", "baseUrl": "https://p.example/v1", **REF},
            "chat_completions",
            "https://p.example/v1",
            "key",
        ),
        ({"provider": "local"}, "anthropic_messages", "https://models.example/v1", "local-key"),
        ({"provider": "local", **REF}, "anthropic_messages", "https://models.example/v1", "key"),
        ({"provider": "local", "apiMode": "responses"}, "responses", "https://models.example/v1", "local-key"),
        ({"provider": "local", "baseUrl": "https://b.example"}, "anthropic_messages", "https://b.example", "local-key"),
        (
            {"provider": "local", "apiMode": "codex_app_server"},
            "anthropic_messages",
            "https://models.example/v1",
            "local-key",
        ),
        ({"provider": "openai", "apiMode": "codex_app_server", **REF}, "responses", "https://api.openai.com/v1", "key"),
        ({"provider": "scripted", "apiMode": "codex_app_server"}, "chat_completions", "http://scripted:8646/v1", None),
        ({"provider": "scripted"}, "chat_completions", "http://scripted:8646/v1", None),
        ({"provider": "scripted", "apiMode": "anthropic_messages"}, "anthropic_messages", "http://scripted:8646", None),
        ({"provider": "scripted", "apiMode": "bedrock_converse"}, "bedrock_converse", "http://scripted:8646", None),
    ],
)
def test_the_ladder(model: dict[str, Any], mode: str, url: str, secret_name: str | None) -> None:
    profile = spec(model, providers=[{**LOCAL, "apiMode": "anthropic_messages"}])
    found = route(places(profile, Purpose.TURN)[0], profile, SCRIPTED_URL)
    assert (found.api_mode, found.base_url, found.secret) == (mode, url, secret_name)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ({"provider": "nobody", **REF}, "model.provider: nobody is neither"),
        ({"provider": "openai"}, "set model.secretRef"),
        ({"provider": "bare"}, "set model.secretRef"),
        ({"provider": "codex"}, "model.provider: codex is neither"),
    ],
)
def test_what_cannot_be_resolved_names_the_field(model: dict[str, Any], says: str) -> None:
    profile = spec(model, providers=[{"name": "bare", "baseUrl": "https://x.example"}])
    with pytest.raises(HermesError, match=says) as caught:
        route(places(profile, Purpose.TURN)[0], profile, SCRIPTED_URL)
    assert caught.value.code is ErrorCode.NOT_CONFIGURED


def test_turns_are_handed_over_by_the_main_model_only() -> None:
    profile = spec(
        {"provider": "openai", **REF, "fallbacks": [{"provider": "groq", "name": "m", "apiMode": "codex_app_server"}]}
    )
    with pytest.raises(HermesError, match=r"model.fallbacks\[0\].apiMode"):
        route(places(profile, Purpose.TURN)[1], profile, SCRIPTED_URL)


def test_the_scripted_model_stands_in_for_nobody() -> None:
    fallback = {"provider": "scripted", "name": "scripted"}
    real = spec({"provider": "openai", **REF, "fallbacks": [fallback], "auxiliary": {"title": fallback}})
    for place in (places(real, Purpose.TURN)[1], places(real, Purpose.TITLE)[0]):
        with pytest.raises(HermesError, match="stands in for no other"):
            route(place, real, SCRIPTED_URL)
    scripted = spec({"provider": "scripted", "fallbacks": [fallback]})
    assert route(places(scripted, Purpose.TURN)[1], scripted, SCRIPTED_URL).secret is None


@pytest.mark.parametrize(
    ("chosen", "fields"),
    [
        ("", ["model", "model.fallbacks[0]"]),
        ("quick", ["model.choices[1]", "model.fallbacks[0]"]),
        ("taken-out", ["model", "model.fallbacks[0]"]),
        ("other", ["model", "model.fallbacks[0]"]),
    ],
)
def test_a_chosen_model_takes_the_main_ones_place_if_the_profile_offers_it(chosen: str, fields: list[str]) -> None:
    slow, quick, other = ({"provider": "openai", "name": name, **REF} for name in ("slow", "quick", "other"))
    profile = spec({"provider": "openai", **REF, "choices": [slow, quick], "fallbacks": [other]})
    assert [place.field for place in places(profile, Purpose.TURN, chosen)] == fields


@pytest.mark.parametrize(
    ("purpose", "fields"),
    [
        (Purpose.TURN, ["model", "model.fallbacks[0]", "model.fallbacks[1]"]),
        (Purpose.COMPRESSION, ["model.auxiliary.compression", "model", "model.fallbacks[0]", "model.fallbacks[1]"]),
        (Purpose.TITLE, ["model", "model.fallbacks[0]", "model.fallbacks[1]"]),
        (Purpose.VISION, ["model.auxiliary.vision", "model", "model.fallbacks[0]", "model.fallbacks[1]"]),
        (Purpose.APPROVAL, ["model", "model.fallbacks[0]", "model.fallbacks[1]"]),
    ],
)
def test_side_jobs_have_their_own_model_and_fall_back_to_the_main_one(purpose: Purpose, fields: list[str]) -> None:
    other = {"provider": "groq", "name": "small", **REF}
    profile = spec(
        {"provider": "openai", **REF, "fallbacks": [other, other], "auxiliary": {"compression": other, "vision": other}}
    )
    assert [place.field for place in places(profile, purpose)] == fields


@pytest.mark.parametrize(
    ("model", "key", "allowed", "expected"),
    [
        ({"provider": "openai", **REF}, secret("api.openai.com"), (), "https://api.openai.com/v1"),
        ({"provider": "openai", **REF}, secret("API.openai.com, x"), (), "https://api.openai.com/v1"),
        ({"provider": "openai", **REF}, secret("x.example"), (), "does not name host api.openai.com"),
        (
            {"provider": "openai", "baseUrl": "http://llm.svc/v1", **REF},
            secret("llm.svc"),
            (),
            "model.baseUrl must be https",
        ),
        (
            {"provider": "openai", "baseUrl": "http://llm.svc/v1", **REF},
            secret("llm.svc"),
            ("LLM.svc",),
            "http://llm.svc/v1",
        ),
        ({"provider": "openai", "baseUrl": "http://llm.svc/v1", **REF}, secret("x"), ("llm.svc",), "does not name host"),
        (
            {"provider": "openai", "baseUrl": "https://u:p@api.openai.com", **REF},
            secret("api.openai.com"),
            (),
            "without user",
        ),
        ({"provider": "local", **REF}, secret("other.example"), (), "does not name host models.example"),
        ({"provider": "plain", **REF}, secret("plain.example"), (), r"spec.providers\[plain\].baseUrl must be https"),
        ({"provider": "bedrock", **REF}, aws(), (), "https://bedrock-runtime.eu-central-1.amazonaws.com"),
        ({"provider": "bedrock", **REF}, aws(hosts="bedrock-runtime.us-east-1.amazonaws.com"), (), "does not name host"),
        ({"provider": "bedrock", **REF}, secret("bedrock-runtime.us-east-1.amazonaws.com"), (), "no key `region`"),
    ],
)
def test_a_key_is_bound_to_its_hosts(model: dict[str, Any], key: ProviderSecret, allowed: Any, expected: str) -> None:
    profile = spec(model, providers=[LOCAL, {"name": "plain", "baseUrl": "http://plain.example"}])
    found = route(places(profile, Purpose.TURN)[0], profile, SCRIPTED_URL)
    if expected.startswith("http"):
        assert address(found, key, allowed) == expected
    else:
        with pytest.raises(HermesError, match=expected) as caught:
            address(found, key, allowed)
        assert caught.value.code is ErrorCode.NOT_CONFIGURED


def test_only_bedrock_takes_aws_keys() -> None:
    for model, key, problem in (
        ({"provider": "bedrock", **REF}, aws(), None),
        ({"provider": "bedrock", **REF}, secret("h"), None),
        ({"provider": "openai", **REF}, aws(), "`api-key`"),
        ({"provider": "openai", **REF}, secret("h"), None),
    ):
        profile = spec(model)
        found = fits(route(places(profile, Purpose.TURN)[0], profile, SCRIPTED_URL), key)
        assert found is None if problem is None else problem in str(found)


def _candidate(model: dict[str, Any], purpose: Purpose = Purpose.TURN, **fields: Any) -> Any:
    profile = spec(model, **fields)
    return candidate("team", places(profile, purpose)[0], profile, purpose, SCRIPTED_URL)


def test_small_windows_serve_turns_only_when_the_profile_says_so() -> None:
    small = {"provider": "openai", "name": "gpt-4", **REF}
    with pytest.raises(HermesError, match=r"8,192 tokens.*model.facts.contextWindow"):
        _candidate(small)
    assert _candidate(small, Purpose.TITLE).knowledge.model.context_window == 8192
    assert _candidate({**small, "facts": {"contextWindow": 20000}}).knowledge.model.context_window == 20000
    assert _candidate({"provider": "scripted", "facts": {"contextWindow": 16000}}).knowledge.model.context_window == 16000


def test_money_is_limited_only_where_prices_are_known() -> None:
    model = {"provider": "openai", "name": "gpt-5", **REF}
    budgets = {"maxDayUsd": "1"}
    assert _candidate(model, budgets=budgets).knowledge.model.price is not None
    for change in ({"name": "unheard-of"}, {"baseUrl": "https://mirror.example/v1"}):
        assert _candidate({**model, **change}).knowledge.model.price is None
        with pytest.raises(HermesError, match=r"model\.facts\.price"):
            _candidate({**model, **change}, budgets=budgets)
        facts = {"price": {"input": "1", "output": "2"}}
        assert _candidate({**model, **change, "facts": facts}, budgets=budgets).knowledge.model.price is not None


def test_list_prices_hold_at_the_providers_own_address() -> None:
    for model, own in (
        ({"provider": "openai", **REF}, True),
        ({"provider": "openai", "baseUrl": "https://api.openai.com/v2", **REF}, True),
        ({"provider": "openai", "baseUrl": "https://mirror.example", **REF}, False),
        ({"provider": "local"}, False),
    ):
        profile = spec(model, providers=[LOCAL])
        assert own_price(route(places(profile, Purpose.TURN)[0], profile, SCRIPTED_URL)) is own
