"""How far our clock is off is read from the API server's answers."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from kubernetes.aio.client.configuration import Configuration

from hermes_operator.cluster.client import ClusterClient, Reach

AT = 1_800_000_000.0


def told(date: str, began: float, ended: float) -> float | None:
    client = ClusterClient(Configuration(), None, Reach("", frozenset()))  # type: ignore[arg-type]
    client._note_time(date, began, ended)
    return client.clock_skew


@pytest.mark.parametrize("ahead", [-3600.0, -6.0, 0.0, 6.0])
def test_a_fast_answer_tells_it_to_within_a_second(ahead: float) -> None:
    date = format_datetime(datetime.fromtimestamp(AT, UTC), usegmt=True)
    found = told(date, AT + ahead + 0.2, AT + ahead + 0.6)
    assert found is not None
    assert abs(found - ahead) <= 1


@pytest.mark.parametrize("date", ["", "yesterday"])
def test_no_date_tells_nothing(date: str) -> None:
    assert told(date, AT, AT) is None


def test_a_slow_answer_tells_nothing() -> None:
    assert told(format_datetime(datetime.fromtimestamp(AT, UTC), usegmt=True), AT, AT + 9) is None
