"""What was streamed ends as the stored answer, whatever happened to the deltas."""

from __future__ import annotations

from hypothesis import given, strategies as st

from hermes_contracts.envelopes import Delta
from hermes_gateway.gateway.openai_api.streaming import BEGINS_ANEW, SEPARATOR, AnswerText


def delta(sequence: int, text: str, *, attempt: int = 1, kind: str = "text") -> Delta:
    return Delta(turn_id="t", attempt=attempt, sequence=sequence, kind=kind, text=text)  # type: ignore[arg-type]


def streamed(deltas: list[Delta], reply: str) -> str:
    text = AnswerText()
    return "".join(text.take(d) for d in deltas) + text.finish(reply)


def test_pieces_are_passed_on_as_they_come() -> None:
    text = AnswerText()
    assert [text.take(delta(n, piece)) for n, piece in enumerate(("a", "b", "c"), 1)] == ["a", "b", "c"]
    assert text.finish("abc") == ""


def test_who_comes_late_gets_the_stored_answer() -> None:
    assert streamed([delta(8, "middle"), delta(9, " end")], "start middle end") == "start middle end"


def test_after_a_gap_nothing_is_guessed() -> None:
    assert streamed([delta(1, "one "), delta(3, "three")], "one two three") == "one two three"


def test_a_tool_call_begins_a_new_segment_and_heals_a_gap() -> None:
    deltas = [delta(1, "look"), delta(3, "x"), delta(4, "", kind="tool_started"), delta(5, "", kind="tool_finished")]
    assert streamed([*deltas, delta(6, "found"), delta(7, " it")], "found it") == f"look{SEPARATOR}found it"


def test_a_silent_last_step_is_set_apart_from_what_was_said_before() -> None:
    assert streamed([delta(1, "look"), delta(2, "", kind="tool_started")], "done") == f"look{SEPARATOR}done"


def test_a_resumed_turn_that_says_the_same_repeats_nothing() -> None:
    again = [delta(n, piece, attempt=2) for n, piece in enumerate(("Hel", "lo the", "re"), 1)]
    assert streamed([delta(1, "Hello"), *again], "Hello there") == "Hello there"


def test_a_resumed_turn_that_says_something_else_is_set_apart() -> None:
    again = [delta(1, "Good", attempt=2), delta(2, "bye", attempt=2)]
    assert streamed([delta(1, "Hello"), *again], "Goodbye") == f"Hello{BEGINS_ANEW}Goodbye"


def test_a_model_that_begins_again_and_says_the_same_repeats_nothing() -> None:
    again = [delta(2, "", kind="restart"), delta(3, "Hel"), delta(4, "lo the"), delta(5, "re")]
    text = AnswerText()
    assert [text.take(d) for d in (delta(1, "Hello"), *again)] == ["Hello", "", "", " the", "re"]
    assert text.finish("Hello there") == ""


def test_a_model_that_begins_again_and_says_something_else_is_announced() -> None:
    again = [delta(2, "", kind="restart"), delta(3, "Help"), delta(4, " me")]
    assert streamed([delta(1, "Hello"), *again], "Help me") == f"Hello{BEGINS_ANEW}Help me"


def test_a_restart_before_any_text_is_not_seen() -> None:
    assert streamed([delta(1, "", kind="restart"), delta(2, "yes")], "yes") == "yes"


def test_a_restart_heals_a_gap_and_a_lost_restart_is_healed_by_the_answer() -> None:
    healed = [delta(1, "one"), delta(3, "xx"), delta(4, "", kind="restart"), delta(5, "one two")]
    assert streamed(healed, "one two") == "one two"
    lost = [delta(1, "one"), delta(3, "two")]
    assert streamed(lost, "two") == f"one{SEPARATOR}two"


def test_a_notice_is_not_part_of_the_answer() -> None:
    assert streamed([delta(1, "wait", kind="notice"), delta(2, "yes")], "yes") == "yes"


def test_late_deltas_of_an_earlier_attempt_and_repetitions_count_for_nothing() -> None:
    deltas = [delta(1, "a", attempt=2), delta(2, "x", attempt=1), delta(1, "a", attempt=2), delta(2, "b", attempt=2)]
    assert streamed(deltas, "ab") == "ab"


def test_reasoning_is_not_part_of_the_answer() -> None:
    assert streamed([delta(1, "hmm", kind="reasoning"), delta(2, "yes")], "yes") == "yes"


PIECES = st.lists(
    st.builds(
        delta,
        st.integers(1, 12),
        st.text("ab", max_size=3),
        attempt=st.integers(1, 3),
        kind=st.sampled_from(["text", "text", "text", "reasoning", "tool_started", "tool_finished", "restart", "notice"]),
    ),
    max_size=15,
)


@given(PIECES, st.text("ab", max_size=8))
def test_whatever_comes_the_stream_ends_with_the_answer(deltas: list[Delta], reply: str) -> None:
    assert streamed(deltas, reply).endswith(reply)


@given(st.lists(st.text(max_size=5), max_size=8), st.sets(st.integers(1, 8)))
def test_with_one_model_call_the_stream_is_the_answer_whatever_is_lost(pieces: list[str], lost: set[int]) -> None:
    deltas = [delta(n, piece) for n, piece in enumerate(pieces, 1) if n not in lost]
    assert streamed(deltas, "".join(pieces)) == "".join(pieces)
