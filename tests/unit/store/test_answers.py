"""Parts of answers, and the copy that an event carries."""

from __future__ import annotations

import json

from hypothesis import given, settings, strategies as st

from hermes_contracts.envelopes import MAX_BODY_BYTES
from hermes_gateway.store import answers
from hermes_gateway.store.answers import MAX_EVENT_REPLY_BYTES, MAX_PART_BYTES, bound_reply, split_reply, storable


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.sampled_from(["word ", "\n\n", "longer-word", "\n", "ü", "😀"]), max_size=6000),
    st.sampled_from(["webhook", "other"]),
)
def test_parts_are_the_whole_answer(pieces: list[str], channel: str) -> None:
    reply = "".join(pieces)
    parts = split_reply(channel, reply)
    assert "".join(parts) == reply
    limit = answers.CHANNEL_LIMITS.get(channel, answers._OTHER_CHANNELS).characters
    assert limit is not None
    assert all(0 < len(part) <= limit for part in parts)


def test_api_has_no_parts_and_webhook_one() -> None:
    assert split_reply("api", "hello") == []
    assert split_reply("webhook", "x" * 100_000) == ["x" * 100_000]
    assert split_reply("webhook", "") == []


def test_parts_end_at_paragraphs() -> None:
    reply = "a" * 3000 + "\n\n" + "b" * 3000
    assert split_reply("other", reply) == ["a" * 3000 + "\n\n", "b" * 3000]


def test_parts_of_costly_characters_fit_the_bus() -> None:
    for character in ("\x01", "😀", '"'):
        reply = character * 100_000
        parts = split_reply("webhook", reply)
        assert "".join(parts) == reply
        assert all(len(json.dumps(part, ensure_ascii=False).encode()) <= MAX_PART_BYTES < MAX_BODY_BYTES for part in parts)


def test_events_carry_a_bounded_reply() -> None:
    assert bound_reply("short") == ("short", False)
    for character in ("x", "\x01", "😀"):
        cut, truncated = bound_reply(character * MAX_EVENT_REPLY_BYTES * 2)
        assert truncated
        assert MAX_EVENT_REPLY_BYTES // 2 < len(json.dumps(cut, ensure_ascii=False).encode()) <= MAX_EVENT_REPLY_BYTES


def test_zero_bytes_do_not_break_a_write() -> None:
    assert storable("a\0b") == "a�b"
