"""What calls cost, and where spending stops."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_contracts.errors import ErrorCode
from hermes_contracts.model_api import Finish, ModelError, Purpose
from hermes_contracts.store_api import SpentReply
from tests.integration.models.harness import NOTHING_SPENT, SID, Models, ask, secret, text, wait_for

PRICE = {"price": {"input": "2", "output": "10", "cachedInput": "0.5"}}
USAGE = {"say": "ok", "usage": {"input": 1000, "cached": 400, "output": 100}}
COST = 600 * 2000 + 400 * 500 + 100 * 10_000
"""Billionths of a dollar: 0.0024."""


def priced(models: Models, *, facts: dict[str, Any] | None = PRICE, **budgets: Any) -> None:
    model = {"provider": "openai", "name": "m", "baseUrl": models.base + "/v1", "secretRef": {"name": "key"}}
    if facts is not None:
        model["facts"] = facts
    models.add_spec("priced", {"model": model, "budgets": budgets}, {"key": secret()})


def spent(**fields: int) -> SpentReply:
    return NOTHING_SPENT.model_copy(update=fields)


async def refusal(models: Models, **fields: Any) -> ModelError:
    (error,) = await models.events(ask("hello", **fields), "priced")
    assert isinstance(error, ModelError)
    assert not models.memory.requests, "a call that is refused is not made"
    return error


async def test_a_call_tells_its_cost_to_the_agent_and_to_the_store(models: Models) -> None:
    priced(models)
    end = (await models.play(USAGE, profile="priced"))[-1]
    assert isinstance(end, Finish)
    assert (end.usage.cost_nano_usd, end.usage.unpriced_calls) == (COST, 0)
    record = await wait_for(lambda: models.records and models.records[0])
    assert record.usage == end.usage and record.purpose == "turn"
    assert models.metrics.cost.labels("openai")._value.get() == pytest.approx(0.0024)
    assert "spent" not in models.store.asked, "without a budget nobody asks"


async def test_an_answer_that_breaks_off_is_not_counted_as_free(models: Models) -> None:
    priced(models)
    await models.play({"say": "half an ", "repeat": 60, "chunk": 8, "cut_after_bytes": 2000}, profile="priced")
    records = await wait_for(lambda: len(models.records) == 3 and models.records)
    assert [r.usage.unpriced_calls for r in records] == [1, 1, 1]
    await models.play({"status": 500}, profile="priced")
    records = await wait_for(lambda: len(models.records) == 6 and models.records)
    assert [r.usage.unpriced_calls for r in records[3:]] == [0, 0, 0]


@pytest.mark.parametrize("purpose", [Purpose.TURN, Purpose.COMPRESSION, Purpose.TITLE])
@pytest.mark.parametrize(
    ("budget", "known", "says"),
    [
        ({"maxSessionUsd": "1.50"}, {"session_nano_usd": 1_500_000_000}, "$1.50 of the $1.50 that one session may spend"),
        ({"maxDayUsd": "2"}, {"profile_day_nano_usd": 2_345_000_000}, "$2.34 of the $2 that this agent may spend in a day"),
        ({"maxMonthUsd": "0"}, {}, "$0.00 of the $0 that this agent may spend in a month"),
        ({"maxDayTokens": 5000}, {"profile_day_tokens": 5001}, "5,001 of the 5,000 tokens"),
    ],
)
async def test_a_budget_that_is_used_up_refuses_side_jobs_too(
    models: Models, budget: dict[str, Any], known: dict[str, int], says: str, purpose: Purpose
) -> None:
    priced(models, **budget)
    models.store.spent = spent(**known)
    error = await refusal(models, purpose=purpose)
    assert (error.code, error.retryable) == (ErrorCode.BUDGET, False) and says in error.message


async def test_money_of_elsewhere_does_not_count(models: Models) -> None:
    priced(models, maxSessionUsd="1", maxDayUsd="5", maxDayTokens=9000)
    models.store.spent = spent(session_nano_usd=999_999_999, profile_day_nano_usd=4_999_999_999,
                               profile_month_nano_usd=10**12, profile_day_tokens=8999)  # fmt: skip
    assert text(await models.play({"say": "fine"}, profile="priced")) == "fine"


async def test_what_was_spent_a_moment_ago_counts_before_the_store_tells(models: Models) -> None:
    priced(models, maxDayUsd="0.006")
    for _ in range(3):
        assert isinstance((await models.play(USAGE, profile="priced"))[-1], Finish)
    error = (await models.play(USAGE, profile="priced"))[-1]
    assert isinstance(error, ModelError) and error.code is ErrorCode.BUDGET
    assert models.store.asked == ["spent"], "asked once in a few seconds"
    models.clock.now = 6
    assert isinstance((await models.play(USAGE, profile="priced"))[-1], Finish), "what the store says goes"


async def test_a_budget_that_cannot_be_checked_refuses_for_now(models: Models) -> None:
    priced(models, maxMonthUsd="100")
    models.store.away = True
    error = await refusal(models)
    assert (error.code, error.retryable) == (ErrorCode.UNAVAILABLE, True) and "budget" in error.message
    priced(models)
    assert isinstance((await models.play({"say": "fine"}, profile="priced"))[-1], Finish)


@pytest.mark.parametrize("limit", ["maxTurnUsd", "maxSessionUsd", "maxDayUsd", "maxMonthUsd"])
async def test_money_cannot_be_limited_where_the_price_is_unknown(models: Models, limit: str) -> None:
    priced(models, facts=None, **{limit: "5"})
    error = await refusal(models)
    assert error.code is ErrorCode.NOT_CONFIGURED and "model.facts.price" in error.message
    priced(models, facts=None, maxDayTokens=1_000_000)
    assert isinstance((await models.play({"say": "fine"}, profile="priced"))[-1], Finish)


async def test_spending_of_one_session_is_not_anothers(models: Models) -> None:
    priced(models, maxSessionUsd="0.002")
    assert isinstance((await models.play(USAGE, profile="priced"))[-1], Finish)
    assert isinstance((await models.play(USAGE, profile="priced"))[-1], ModelError)
    assert models.records[0].sid == SID
