"""What is known of models: the table in models.json, and what the Profile says instead. Pure after loading."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from hermes_contracts.conversation import Usage
from hermes_contracts.crd.profile import ModelFacts, Price as PriceFacts
from hermes_contracts.providers import SCRIPTED
from hermes_gateway.models.target import KnownModel, Price

LAST_RESORT_WINDOW = 128_000
"""Tokens. Too small costs an early summary, too large a refused call: the smallest window of today's common models."""
_OTHER_MODEL = re.compile(r"[^\W_]|\.\d|-\d{1,2}(?![^\W_])")
"""What makes a longer name another model's: letters, or one more number of a version, which is shorter than a date."""
MINIMUM_WINDOW = 64_000
"""Tokens. Below it prompt, tools and protected messages leave no room to work in."""

_FREE = Price(Decimal(0), Decimal(0), Decimal(0), Decimal(0))
_SCRIPTED = KnownModel(200_000, 64_000, vision=True, reasoning=True, prompt_cache=True, price=_FREE)
_UNKNOWN = KnownModel(LAST_RESORT_WINDOW, 8_192, vision=False, reasoning=False, prompt_cache=False)


@dataclass(frozen=True)
class Knowledge:
    """A model's facts. `dear` prices the whole call once its input passes `dear_over` tokens."""

    model: KnownModel
    dear: Price | None = None
    dear_over: int = 0

    def price_of(self, input_tokens: int) -> Price | None:
        """Return the price that a call with so much input has."""
        return self.dear if self.dear is not None and input_tokens > self.dear_over else self.model.price


def know(provider: str, name: str, facts: ModelFacts | None) -> Knowledge:
    """Return what is known of a model at a provider. The Profile's facts go before the table's."""
    found = Knowledge(_SCRIPTED) if provider == SCRIPTED else _from_table(provider, name)
    if facts is None:
        return found
    model = replace(
        found.model,
        context_window=facts.context_window or found.model.context_window,
        vision=found.model.vision if facts.vision is None else facts.vision,
        reasoning=found.model.reasoning if facts.reasoning is None else facts.reasoning,
    )
    if facts.price is not None:
        return Knowledge(replace(model, price=_own_price(facts.price)))
    return replace(found, model=model)


def priced(usage: Usage, knowledge: Knowledge) -> Usage:
    """Return a usage with its cost, or with its calls marked as unpriced."""
    price = knowledge.price_of(usage.input_tokens)
    if price is None:
        return usage.model_copy(update={"unpriced_calls": usage.model_calls, "cost_nano_usd": 0})
    fresh = max(usage.input_tokens - usage.cached_input_tokens - usage.cache_write_tokens, 0)
    millionths = (
        fresh * price.input
        + usage.cached_input_tokens * price.cached_input
        + usage.cache_write_tokens * price.cache_write
        + usage.output_tokens * price.output
    )
    return usage.model_copy(update={"cost_nano_usd": round(millionths * 1000)})


def _own_price(price: PriceFacts) -> Price:
    whole = Decimal(price.input)
    return Price(
        whole,
        Decimal(price.output),
        whole if price.cached_input is None else Decimal(price.cached_input),
        whole if price.cache_write is None else Decimal(price.cache_write),
    )


@dataclass(frozen=True)
class _Entry:
    model: KnownModel
    prices: dict[str, Price]
    dear: dict[str, Price]
    dear_over: int


@lru_cache(maxsize=1024)
def _from_table(provider: str, name: str) -> Knowledge:
    entry = _find(name.lower())
    if entry is None:
        return Knowledge(_UNKNOWN)
    model = replace(entry.model, price=entry.prices.get(provider))
    return Knowledge(model, entry.dear.get(provider), entry.dear_over)


@cache
def _table() -> dict[str, _Entry]:
    data = json.loads(files("hermes_gateway.models").joinpath("models.json").read_text())
    found: dict[str, _Entry] = {}
    for item in data["models"]:
        over = item.get("over", {})
        entry = _Entry(
            KnownModel(
                item["context_window"], item["max_output_tokens"],
                vision=item["vision"], reasoning=item["reasoning"], prompt_cache=item["prompt_cache"],
            ),
            {provider: _price(price) for provider, price in item["prices"].items()},
            {provider: _price(price) for provider, price in over.get("prices", {}).items()},
            over.get("input_tokens", 0),
        )  # fmt: skip
        found.update(dict.fromkeys(item["names"], entry))
    return found


def _price(item: dict[str, Any]) -> Price:
    whole = Decimal(item["input"])
    return Price(
        whole, Decimal(item["output"]), Decimal(item.get("cached_input", whole)), Decimal(item.get("cache_write", whole))
    )


def _find(name: str) -> _Entry | None:
    """Return the entry with the longest name that stands in a model's name as whole words, so that dates may follow."""
    best, entry = 0, None
    for known, candidate in _table().items():
        if len(known) > best and _stands_in(known, name):
            best, entry = len(known), candidate
    return entry


def _stands_in(known: str, name: str) -> bool:
    start = name.find(known)
    while start >= 0:
        after = name[start + len(known) :]
        # `gpt-4` is not in `gpt-4.5`, `gpt-4o` or `gpt-4-5`; `claude-sonnet-4` is in `claude-sonnet-4-20250514`.
        ends = not _OTHER_MODEL.match(after)
        if ends and (start == 0 or not name[start - 1].isalnum()):
            return True
        start = name.find(known, start + 1)
    return False
