"""Events and stored turns become answers; cursors survive a round trip."""

from __future__ import annotations

import pytest

from hermes_contracts.conversation import Usage
from hermes_contracts.envelopes import Event, EventType
from hermes_contracts.store_api import OwnedSession, Turn, TurnState
from hermes_gateway.gateway.sessions_api.protocol import parse_cursor, render_cursor
from hermes_gateway.gateway.turns import answer_of_event, answer_of_turn
from hermes_gateway.gateway.web.errors import ApiError

SID = "s" + "a" * 25


def event(kind: EventType = EventType.TURN_DONE, **data: object) -> Event:
    return Event(sid=SID, type=kind, turn_id="t", account="a", update_id="u", at=1.0, data=data)


def test_an_event_with_the_whole_reply_is_the_answer() -> None:
    answer = answer_of_event(event(reply="hi", truncated=False, reason="stop", usage={"input_tokens": 3}))
    assert answer is not None
    assert (answer.reply, answer.state, answer.usage.input_tokens) == ("hi", TurnState.DONE, 3)


@pytest.mark.parametrize(
    "found",
    [event(reply="cut", truncated=True), event(), event(reply=5), event(EventType.TURN_STARTED, reply="x")],
)
def test_any_other_event_sends_us_to_the_store(found: Event) -> None:
    assert answer_of_event(found) is None


def test_an_odd_usage_does_not_hide_the_answer() -> None:
    answer = answer_of_event(event(EventType.TURN_DEAD, reply="sorry", usage={"input_tokens": "many"}))
    assert answer is not None
    assert (answer.state, answer.usage) == (TurnState.DEAD, Usage())


@pytest.mark.parametrize("state", list(TurnState))
def test_a_stored_turn_is_an_answer_once_it_is_settled(state: TurnState) -> None:
    answer = answer_of_turn(Turn(found=True, turn_id="t", state=state, reply="hi"))
    assert (answer is not None) == (state not in (TurnState.RECEIVED, TurnState.RUNNING))


def session(at: float) -> OwnedSession:
    return OwnedSession(
        sid=SID, namespace="n", profile="p", key={}, title="", created_at=0, last_activity=at, turns=0, running_turns=0,
        usage=Usage(),
    )  # fmt: skip


def test_a_cursor_keeps_every_digit() -> None:
    at = 1_764_525_600.123457
    assert parse_cursor(render_cursor(session(at))) == (at, SID)
    assert parse_cursor(None) is None


@pytest.mark.parametrize("text", ["", "x", "e30", "W10", "WzEsMl0", "W05hTiwic2FhYSJd", "ä", "a" * 200])
def test_a_made_up_cursor_is_refused(text: str) -> None:
    with pytest.raises(ApiError):
        parse_cursor(text)
