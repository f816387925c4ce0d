"""Decisions of the store: fencing, attempts, deliveries."""

from __future__ import annotations

import pytest

from hermes_contracts.conversation import Message
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import SETTLED, CompactReply, CompactRequest, FrozenPrompt, PutMediaRequest, TurnState
from hermes_gateway.store import rules
from hermes_gateway.store.rules import (
    FoundCompaction,
    FoundDelivery,
    FoundMedium,
    FoundTurn,
    Opening,
    PageWrite,
    decide_compaction,
    decide_delivery,
    decide_opening,
    decide_page,
)


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


@pytest.mark.parametrize("text", ["", "a.b", "a.b.c", "a.b.-1", "a.b.1.2.3", "a.b.1.x", "a.b.²", "a.b.99999999"])
def test_broken_delivery_ids_are_none(text: str) -> None:
    assert rules.DeliveryId.parse(text) is None


def test_delivery_ids_come_back() -> None:
    assert rules.DeliveryId.parse(str(rules.DeliveryId("s1", "t1", 2))) == rules.DeliveryId("s1", "t1", 2)


def test_turn_ids_keep_their_parts_apart() -> None:
    assert rules.turn_id("s", "c", "ab", "c") != rules.turn_id("s", "c", "a", "bc")
    assert rules.turn_id("s", "c", "a", "b") == rules.turn_id("s", "c", "a", "b")


def compaction(**changes: object) -> FoundCompaction:
    facts = {
        "state": "running", "turn_conversation": CONVERSATION, "step_written": None, "compactions": 2,
        "done_number": None, "done_sequence": None, **changes,
    }  # fmt: skip
    return FoundCompaction(**facts)  # type: ignore[arg-type]


CONVERSATION = "c" + "a" * 25
COMPACT = CompactRequest(
    turn_id="t", step=4, conversation=CONVERSATION, expected=2, prompt=FrozenPrompt(system="", tools=()),
    messages=(Message.user("summary"),), summary_index=0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"state": None}, ErrorCode.NOT_FOUND),
        ({"state": "done"}, ErrorCode.CONFLICT),
        ({"state": "dead"}, ErrorCode.FENCED),
        ({"step_written": 7}, ErrorCode.CONFLICT),
        ({"turn_conversation": "c" + "b" * 25}, ErrorCode.INVALID),
        ({"compactions": None}, ErrorCode.NOT_FOUND),
        ({"compactions": 1}, ErrorCode.CONFLICT),
        ({"compactions": 3}, ErrorCode.CONFLICT),
    ],
)
def test_compactions_that_are_refused(changes: dict[str, object], code: ErrorCode) -> None:
    with pytest.raises(HermesError) as caught:
        decide_compaction(compaction(**changes), COMPACT)
    assert caught.value.code is code


def test_a_compaction_is_written_or_answered_again() -> None:
    assert decide_compaction(compaction(), COMPACT) is None
    assert decide_compaction(compaction(turn_conversation=None), COMPACT) is None, "a command has no conversation of its own"
    again = compaction(state="done", compactions=5, done_number=3, done_sequence=40, step_written=40)
    assert decide_compaction(again, COMPACT) == CompactReply(sequence=40, compactions=3)


def page(offset: int, total: int = 100, media_type: str = "image/png") -> PutMediaRequest:
    return PutMediaRequest(
        sid="s" + "a" * 25, media_id="m" + "a" * 25, media_type=media_type, total=total, offset=offset, data=""
    )


@pytest.mark.parametrize(
    ("received", "request_", "size", "write"),
    [
        (None, page(0), 60, PageWrite.BEGIN),
        (0, page(0), 60, PageWrite.BEGIN),
        (60, page(60), 40, PageWrite.NEXT),
        (60, page(0), 60, PageWrite.NOTHING),
        (60, page(30), 30, PageWrite.NOTHING),
        (100, page(60), 40, PageWrite.NOTHING),
        (100, page(0, total=7), 7, PageWrite.NOTHING),
        (60, page(0, total=90), 60, PageWrite.BEGIN),
        (60, page(0, media_type="image/gif"), 60, PageWrite.BEGIN),
        (60, page(0), 70, PageWrite.BEGIN),
    ],
)
def test_pages(received: int | None, request_: PutMediaRequest, size: int, write: PageWrite) -> None:
    found = None if received is None else FoundMedium("image/png", 100, received)
    assert decide_page(found, request_, size) is write


@pytest.mark.parametrize(
    ("received", "request_", "go_on"),
    [(None, page(60), 0), (60, page(70), 60), (60, page(50), 60), (60, page(60, total=90), 0)],
)
def test_pages_that_do_not_follow(received: int | None, request_: PutMediaRequest, go_on: int) -> None:
    found = None if received is None else FoundMedium("image/png", 100, received)
    with pytest.raises(HermesError) as caught:
        decide_page(found, request_, 20)
    assert caught.value.code is ErrorCode.CONFLICT
    assert caught.value.message.endswith(f"go on at offset {go_on}")


def test_media_have_room_up_to_the_limit() -> None:
    rules.require_room(60, 40, 100)
    with pytest.raises(HermesError) as caught:
        rules.require_room(60, 41, 100)
    assert caught.value.code is ErrorCode.TOO_LARGE
