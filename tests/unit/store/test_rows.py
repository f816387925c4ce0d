"""What goes into rows: the end of a turn with a usage that is added up later, measured places, a Profile's sums."""

from __future__ import annotations

import json

from hypothesis import given, settings, strategies as st

from hermes_contracts.conversation import Message, Usage
from hermes_contracts.envelopes import Event, EventType
from hermes_contracts.names import media_id
from hermes_contracts.store_api import JournalEntry
from hermes_gateway.store.outbox import TurnFacts, open_outcome, outcome_row
from hermes_gateway.store.usage import shard_of, spend_by_profile
from hermes_gateway.store.writes import journal_values, measured_place

FACTS = TurnFacts("s" + "a" * 25, "t", "c", "account", "u")
ZERO = json.dumps(Usage().model_dump(), separators=(",", ":"))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["", "hello", ZERO, '"usage":' + ZERO, "}}"]), st.sampled_from(["stop", "", ZERO[:60]]))
def test_an_outcome_takes_its_usage_later(reply: str, reason: str) -> None:
    usage = Usage(input_tokens=3, cost_nano_usd=9)
    outcome = open_outcome(FACTS, EventType.TURN_DONE, reply, reason)
    event = Event.model_validate_json(outcome.head + usage.model_dump_json() + outcome.tail)
    known = Event.model_validate_json(outcome_row(FACTS, EventType.TURN_DONE, reply, reason, usage).payload)
    assert event.model_copy(update={"at": known.at}) == known


def test_a_provider_has_counted_up_to_what_its_model_wrote() -> None:
    user, assistant = Message.user("a"), Message.assistant("b")
    assert measured_place([]) == 0
    assert measured_place([user]) == 1
    assert measured_place([user, assistant]) == 2
    assert measured_place([user, assistant, user]) == 2


def test_a_call_that_started_and_finished_in_one_step_is_finished() -> None:
    entries = [
        JournalEntry(call_id=call, tool="terminal", state=state)
        for call, state in (("a", "started"), ("b", "started"), ("a", "finished"))
    ]
    assert journal_values(entries) == {
        "calls": ["a", "b"], "tools": ["terminal", "terminal"], "states": ["finished", "started"],
    }  # fmt: skip


def test_a_month_holds_its_days() -> None:
    empty = Usage().model_dump()
    rows = [
        {"profile": "p", "today": False, **empty, "cost_nano_usd": 5},
        {"profile": "p", "today": True, **empty, "cost_nano_usd": 2},
        {"profile": "q", "today": False, **empty, "cost_nano_usd": 1},
    ]
    spends = spend_by_profile(rows)
    assert (spends["p"].day.cost_nano_usd, spends["p"].month.cost_nano_usd) == (2, 7)
    assert (spends["q"].day.cost_nano_usd, spends["q"].month.cost_nano_usd) == (0, 1)
    assert len({shard_of(f"s{n}") for n in range(200)}) == 8


def test_media_are_named_by_their_bytes() -> None:
    assert media_id(b"abc") == media_id(b"abc") != media_id(b"abd")
    assert media_id(b"") == "m4oymiquy7qobjgx36tejs35ze"
