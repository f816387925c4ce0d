"""Decisions of the store: fencing, attempts, deliveries."""

from __future__ import annotations

import pytest

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import SETTLED, TurnState
from hermes_gateway.store import rules
from hermes_gateway.store.rules import FoundDelivery, FoundTurn, Opening, decide_delivery, decide_opening


def turn(**changes: object) -> FoundTurn:
    facts = {"state": TurnState.RUNNING, "attempt": 1, "epoch": 3, "ack_subject": "a", "handed_back": False, **changes}
    return FoundTurn(**facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "epoch", "ack", "opening"),
    [
        (None, 3, "a", Opening.NEW),
        (turn(), 3, "a", Opening.REPEATED),
        (turn(), 3, "b", Opening.RESUMED),
        (turn(), 4, "a", Opening.RESUMED),
        (turn(attempt=rules.MAX_ATTEMPTS), 4, "b", Opening.GIVEN_UP),
        (turn(attempt=rules.MAX_ATTEMPTS), 3, "a", Opening.REPEATED),
        (turn(handed_back=True, attempt=rules.MAX_ATTEMPTS), 4, "b", Opening.HANDED_BACK),
        *((turn(state=state, handed_back=True), 4, "b", Opening.SETTLED) for state in sorted(SETTLED)),
    ],
)
def test_opening(found: FoundTurn | None, epoch: int, ack: str, opening: Opening) -> None:
    assert decide_opening(found, epoch, ack) is opening


def test_epochs_fence() -> None:
    rules.require_epoch(3, "s", 3)
    for current in (2, 4, None):
        with pytest.raises(HermesError) as caught:
            rules.require_epoch(current, "s", 3)
        assert caught.value.code is ErrorCode.FENCED
        assert not caught.value.retryable


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (None, ErrorCode.NOT_FOUND),
        ("dead", ErrorCode.FENCED),
        ("done", ErrorCode.CONFLICT),
        ("failed", ErrorCode.CONFLICT),
    ],
)
def test_only_running_turns_are_written(state: str | None, code: ErrorCode) -> None:
    rules.require_running("running", "t")
    with pytest.raises(HermesError) as caught:
        rules.require_running(state, "t")
    assert caught.value.code is code


def delivery(**changes: object) -> FoundDelivery:
    facts = {"state": "pending", "attempts": 0, "holder": "", "previous": None, **changes}
    return FoundDelivery(**facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "proceed", "state", "attempts", "uncertain"),
    [
        (None, False, "unknown", 0, False),
        (delivery(), True, "attempting", 1, False),
        (delivery(attempts=2), True, "attempting", 3, False),
        (delivery(previous="delivered"), True, "attempting", 1, False),
        (delivery(previous="pending"), False, "waiting", 0, False),
        (delivery(previous="attempting"), False, "waiting", 0, False),
        (delivery(state="delivered", attempts=1), False, "delivered", 1, False),
        (delivery(state="failed", attempts=4), False, "failed", 4, False),
        (delivery(state="attempting", attempts=1, holder="me"), True, "attempting", 1, False),
        (delivery(state="attempting", attempts=1, holder="other"), True, "attempting", 2, True),
    ],
)
def test_delivery(found: FoundDelivery | None, proceed: bool, state: str, attempts: int, uncertain: bool) -> None:
    start = decide_delivery(found, "me")
    assert (start.proceed, start.state, start.attempts, start.uncertain) == (proceed, state, attempts, uncertain)


@pytest.mark.parametrize("text", ["", "a.b", "a.b.c", "a.b.-1", "a.b.1.2", "a.b.²", "a.b.99999999"])
def test_broken_delivery_ids_are_none(text: str) -> None:
    assert rules.DeliveryId.parse(text) is None


def test_delivery_ids_come_back() -> None:
    assert rules.DeliveryId.parse(str(rules.DeliveryId("s1", "t1", 2))) == rules.DeliveryId("s1", "t1", 2)


def test_turn_ids_keep_their_parts_apart() -> None:
    assert rules.turn_id("s", "c", "ab", "c") != rules.turn_id("s", "c", "a", "bc")
    assert rules.turn_id("s", "c", "a", "b") == rules.turn_id("s", "c", "a", "b")
