"""Money is shown to the last digit, and what is not known is said."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from hermes_contracts.conversation import Usage
from hermes_gateway.gateway.spending import Spending, render_dollars


@pytest.mark.parametrize(
    ("nano", "shown"),
    [
        (0, "0.00"), (1, "0.000000001"), (1_500_000_000, "1.50"), (12_345_678, "0.012345678"), (10**12, "1000.00"),
        (-5, "-0.000000005"),
    ],
)  # fmt: skip
def test_dollars(nano: int, shown: str) -> None:
    assert render_dollars(nano) == shown


@given(st.integers(-(10**15), 10**15))
def test_nothing_is_rounded(nano: int) -> None:
    assert Decimal(render_dollars(nano)) * 10**9 == nano


def test_an_unknown_price_is_said() -> None:
    assert Spending.of(Usage(model_calls=3)).cost_note is None
    note = Spending.of(Usage(model_calls=3, unpriced_calls=2, cost_nano_usd=5)).cost_note
    assert note == "2 of 3 model calls were of models without a known price: the cost is at least this"
