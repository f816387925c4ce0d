"""What is known of models, and what their tokens cost."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from importlib.resources import files

import pytest

from hermes_contracts.conversation import Usage
from hermes_contracts.crd.profile import ModelFacts, Price as PriceFacts
from hermes_contracts.providers import BUILT_IN
from hermes_gateway.models.catalog import LAST_RESORT_WINDOW, MINIMUM_WINDOW, _table, know, priced


@pytest.mark.parametrize(
    ("provider", "name", "window", "vision", "reasoning", "input_price"),
    [
        ("openai", "gpt-4o-mini-2024-07-18", 128_000, True, False, "0.15"),
        ("openai", "gpt-4o", 128_000, True, False, "2.50"),
        ("openai", "o3-mini", 200_000, False, True, "1.10"),
        ("openai", "gpt-4.1-nano", 1_047_576, True, False, "0.10"),
        ("anthropic", "claude-sonnet-4-20250514", 200_000, True, True, "3"),
        ("anthropic", "claude-opus-4-5-20251101", 200_000, True, True, "5"),
        ("anthropic", "claude-3-5-sonnet-latest", 200_000, True, False, "3"),
        ("bedrock", "eu.anthropic.claude-3-haiku-20240307-v1:0", 200_000, True, False, "0.25"),
        ("bedrock", "amazon.nova-lite-v1:0", 300_000, True, False, "0.06"),
        ("openrouter", "anthropic/claude-opus-4.1", 200_000, True, True, "15"),
        ("gemini", "gemini-2.5-flash-lite", 1_048_576, True, True, "0.10"),
        ("deepseek", "deepseek-chat", 128_000, False, False, "0.28"),
        ("xai", "grok-4-fast-reasoning", 2_000_000, True, False, "0.20"),
        ("together", "meta-llama/Llama-3.3-70B-Instruct-Turbo", 131_072, False, False, None),
        ("groq", "qwen/qwen3-32b", 131_072, False, False, None),
        ("openai", "gpt-4", 8_192, False, False, "30"),
        ("openai", "gpt-4.9", LAST_RESORT_WINDOW, False, False, None),
        ("openai", "gpt-4x", LAST_RESORT_WINDOW, False, False, None),
        ("openai", "halo1", LAST_RESORT_WINDOW, False, False, None),
        ("groq", "gpt-4o", 128_000, True, False, None),
        ("openai", "gpt-4-9", LAST_RESORT_WINDOW, False, False, None),
        ("openai", "gpt-4-0613", 8_192, False, False, "30"),
        ("anthropic", "claude-opus-4-9", LAST_RESORT_WINDOW + 72_000, True, False, None),
        ("anthropic", "claude-opus-5-5", 1_000_000, True, True, "4"),
        ("openrouter", "anthropic/claude-opus-5.5", 1_000_000, True, True, None),
        ("anthropic", "claude-haiku-4-5-20251001", 200_000, True, True, "1"),
        ("openai", "gpt-5.6-luna", 922_000, True, True, "0.20"),
        ("openai", "gpt-5.5-pro", 272_000, True, True, None),
        ("gemini", "gemini-3.1-pro-preview", 1_048_576, True, True, "2"),
        ("gemini", "gemini-2.5-pro-preview-05-06", 1_048_576, True, True, "1.25"),
        ("bedrock", "us.meta.llama3-1-70b-instruct-v1:0", 131_072, False, False, None),
        ("groq", "llama-3-8b-instant", 8_192, False, False, None),
        ("scripted", "anything", 200_000, True, True, "0"),
    ],
)
def test_models_by_name(
    provider: str, name: str, window: int, vision: bool, reasoning: bool, input_price: str | None
) -> None:
    model = know(provider, name, None).model
    assert (model.context_window, model.vision, model.reasoning) == (window, vision, reasoning)
    assert (None if model.price is None else model.price.input) == (None if input_price is None else Decimal(input_price))


def test_the_table_is_sound() -> None:
    for name, entry in _table().items():
        assert name == name.lower() and entry.model.max_output_tokens <= entry.model.context_window, name
        assert set(entry.prices) | set(entry.dear) <= set(BUILT_IN), name
        for price in (*entry.prices.values(), *entry.dear.values()):
            assert 0 < price.cached_input <= price.input <= price.output, name
            assert price.cache_write >= price.cached_input, name
        for provider, dear in entry.dear.items():
            assert entry.dear_over >= MINIMUM_WINDOW and dear.input > entry.prices[provider].input, name


def test_every_entry_is_complete_plausible_and_says_where_it_is_from() -> None:
    data = json.loads(files("hermes_gateway.models").joinpath("models.json").read_text())
    fields = {"names", "context_window", "max_output_tokens", "vision", "reasoning", "prompt_cache", "prices", "source"}
    names = [name for entry in data["models"] for name in entry["names"]]
    assert len(names) == len(set(names)), "a name stands for one model"
    for source in data["sources"].values():
        assert source["page"] and date.fromisoformat(source["read"]) <= date.today()
    for entry in data["models"]:
        about = entry["names"][0]
        assert fields <= set(entry) <= fields | {"over"} and entry["source"] in data["sources"], about
        assert all(isinstance(entry[flag], bool) for flag in ("vision", "reasoning", "prompt_cache")), about
        assert 4_000 <= entry["context_window"] <= 4_000_000 and 2_000 <= entry["max_output_tokens"] <= 500_000, about
        for price in (*entry["prices"].values(), *entry.get("over", {}).get("prices", {}).values()):
            assert {"input", "output"} <= set(price) <= {"input", "output", "cached_input", "cache_write"}, about
            assert Decimal("0.01") <= Decimal(price["input"]) <= 60 and Decimal(price["output"]) <= 250, about
            assert 1 <= Decimal(price["output"]) / Decimal(price["input"]) <= 10, about
        assert set(entry.get("over", {}).get("prices", {})) <= set(entry["prices"]), about


@pytest.mark.parametrize("name", ["claude-haiku-5-5", "gpt-5.6-luna", "gpt-5.4", "gemini-3.1-pro", "grok-4.7"])
def test_a_long_request_of_a_model_with_two_prices_costs_more_from_its_first_token(name: str) -> None:
    provider = {"c": "anthropic", "o": "openai", "gp": "openai", "ge": "gemini", "gr": "xai"}
    found = know(provider[name[:1] if name.startswith("c") else name[:2]], name, None)
    short, long = (priced(Usage(input_tokens=n, model_calls=1), found) for n in (found.dear_over, found.dear_over + 1))
    assert short.cost_nano_usd * 1.9 < long.cost_nano_usd


def test_the_profile_knows_better() -> None:
    facts = ModelFacts(context_window=32_000, vision=False, reasoning=True, price=PriceFacts(input="1.5", output="2"))
    model = know("openai", "gpt-4o", facts).model
    assert (model.context_window, model.vision, model.reasoning, model.max_output_tokens) == (32_000, False, True, 16_384)
    assert model.price is not None and model.price.cached_input == model.price.cache_write == Decimal("1.5")
    partly = know("openai", "gpt-4o", ModelFacts(vision=False)).model
    assert partly.price is not None and partly.context_window == 128_000 and not partly.vision


@pytest.mark.parametrize(
    ("provider", "name", "usage", "nano_usd"),
    [
        # 400 fresh at 3, 500 cached at 0.30, 100 written at 3.75, 200 out at 15: 4,725 millionths of a dollar.
        (
            "anthropic", "claude-sonnet-4",
            {"input_tokens": 1000, "cached_input_tokens": 500, "cache_write_tokens": 100, "output_tokens": 200}, 4_725_000,
        ),
        ("openai", "gpt-5-nano", {"input_tokens": 1, "output_tokens": 0}, 50),
        ("openai", "gpt-5-nano", {"input_tokens": 1, "cached_input_tokens": 1}, 5),
        ("gemini", "gemini-2.5-pro", {"input_tokens": 200_000, "output_tokens": 1000}, 260_000_000),
        ("gemini", "gemini-2.5-pro", {"input_tokens": 200_001, "output_tokens": 1000}, 515_002_500),
        ("scripted", "scripted", {"input_tokens": 1000, "output_tokens": 1000}, 0),
    ],
)  # fmt: skip
def test_costs_to_the_billionth(provider: str, name: str, usage: dict[str, int], nano_usd: int) -> None:
    found = priced(Usage(**usage, model_calls=1), know(provider, name, None))
    assert (found.cost_nano_usd, found.unpriced_calls) == (nano_usd, 0)


def test_a_call_without_a_price_is_counted_as_such() -> None:
    found = priced(Usage(input_tokens=10, output_tokens=10, model_calls=1), know("groq", "whatever", None))
    assert (found.cost_nano_usd, found.unpriced_calls) == (0, 1)
