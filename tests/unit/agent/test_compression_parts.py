"""The pure parts: sizes, thresholds, rests, shortening, names, and what a summary says."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, strategies as st

from hermes_agent.compression import ledger, names
from hermes_agent.compression.budget import Budget, summary_tokens, threshold_tokens
from hermes_agent.compression.check import illegal, problems
from hermes_agent.compression.material import material_of
from hermes_agent.compression.policy import COOL_DOWN_SECONDS, MAX_PASSES, History, Size, is_due, is_urgent
from hermes_agent.compression.shrink import prune_results, shorten, shrink_arguments
from hermes_agent.compression.sizes import IMAGE_TOKENS, message_tokens, text_tokens, transcript_tokens
from hermes_agent.compression.summary import END, MARK, Summary, merge_said, parse, render
from hermes_contracts.agent_config import CompressionConfig
from hermes_contracts.conversation import ImagePart, Message, ReasoningPart, Role, TextPart, ToolResultPart
from tests.unit.agent.compression_scene import budget, conversation, tool_round


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("abcd", 1), ("abcde", 2), ("例え", 2), ("한국어", 3), ("かな", 2), ("Привет", 3), ("مرحبا", 3), ("a例b", 2)],
)
def test_rough_tokens(text: str, tokens: int) -> None:
    assert text_tokens(text) == tokens


def test_pictures_cost_and_thinking_that_is_not_sent_again_does_not() -> None:
    picture = Message(role=Role.USER, parts=(ImagePart(media_id="m" + "a" * 25, media_type="image/png", size=1),))
    assert message_tokens(picture) >= IMAGE_TOKENS
    signed = ReasoningPart(text="think " * 1_000, signature="s")
    unsigned = ReasoningPart(text="think " * 1_000)
    answer = TextPart(text="ok")
    for thought, counts in ((signed, True), (unsigned, False)):
        rows = [Message.user("q"), Message(role=Role.ASSISTANT, parts=(thought, answer))]
        assert (transcript_tokens(rows) > 1_000) is counts
        assert transcript_tokens([*rows, Message.user("next")]) < 100, "an earlier turn's thinking stays behind"


@pytest.mark.parametrize(
    ("window", "percent", "tokens"),
    [
        (200_000, None, 150_000),
        (511_999, None, 383_999),
        (512_000, None, 256_000),
        (10**6, None, 500_000),
        (10**5, 10, 10_000),
    ],
)
def test_threshold(window: int, percent: int | None, tokens: int) -> None:
    assert threshold_tokens(window, CompressionConfig(threshold_percent=percent)) == tokens


@given(st.integers(2_000, 2_000_000), st.integers(0, 5), st.integers(0, 20), st.integers(8, 200))
def test_what_is_kept_always_fits_below_the_threshold(window: int, level: int, first: int, last: int) -> None:
    limits = Budget.of(window, CompressionConfig(protect_first=first, protect_last=last), level=level)
    fixed = limits.summary_tokens * 1.5 + limits.head_tokens + limits.tail_tokens
    assert fixed <= max(0.65 * window, 1_500)
    assert 0 < summary_tokens(10**6, limits) <= limits.summary_tokens and limits.tail_floor >= 1


def test_an_estimate_waits_for_a_real_count_unless_it_is_over_the_window() -> None:
    assert is_due(Size(80, counted=True), 75, 100) and not is_due(Size(80, counted=False), 75, 100)
    assert is_due(Size(100, counted=False), 75, 100) and not is_due(Size(74, counted=True), 75, 100)
    assert is_urgent(Size(85, counted=True), 100) and not is_urgent(Size(84, counted=True), 100)


def test_rests_after_failures_grow_and_urgency_overrides_them() -> None:
    history, now = History(), 0.0
    for seconds in (*COOL_DOWN_SECONDS, COOL_DOWN_SECONDS[-1]):
        history.failed(now)
        assert history.rests(now + seconds - 1, 100, urgent=False)
        assert not history.rests(now + seconds - 1, 100, urgent=True)
        now += seconds
        assert not history.rests(now, 100, urgent=False)


def test_two_passes_without_gain_rest_until_the_conversation_has_grown() -> None:
    history = History()
    history.gained_nothing(1_000)
    assert not history.rests(0, 1_000, urgent=False)
    history.gained_nothing(1_000)
    assert history.rests(0, 1_199, urgent=True) and not history.rests(0, 1_200, urgent=False)
    history.proved(500, 750)
    assert not history.rests(0, 1_000, urgent=False)


def test_passes_are_counted_by_turn_and_forgiven_when_they_worked() -> None:
    history = History().in_turn("t1")
    history.passes = MAX_PASSES
    assert history.rests(0, 1, urgent=True) and not history.in_turn("t2").rests(0, 1, urgent=True)
    history.passes, history.awaiting_proof = MAX_PASSES, True
    history.proved(10, 100)
    assert not history.rests(0, 1, urgent=True)


@given(
    st.recursive(st.text(max_size=400) | st.integers() | st.none(), lambda x: st.lists(x) | st.dictionaries(st.text(), x))
)
def test_shrunk_arguments_stay_json(value: object) -> None:
    text = json.dumps({"value": value}, ensure_ascii=False)
    assert isinstance(json.loads(shrink_arguments(text, 50)), dict)


def test_broken_arguments_and_deep_ones_become_harmless() -> None:
    assert shrink_arguments("{" * 500) == "{}"
    assert len(shrink_arguments('{"a":' * 300 + "1" + "}" * 300)) < 400


def test_old_results_become_notes_that_say_what_they_were_and_short_ones_stay() -> None:
    rows = tool_round([("a", "terminal", '{"command":"make"}', "compiling\n" * 100), ("b", "terminal", "{}", "ok")])
    pruned = prune_results(rows)
    first, second = (part for part in pruned[1].parts if isinstance(part, ToolResultPart))
    assert "terminal" in first.text and "make" in first.text and "1000 characters" in first.text and len(first.text) < 300
    assert second.text == "ok" and illegal([Message.user("q"), *pruned]) == []
    assert prune_results(pruned) == pruned


@given(st.text(), st.integers(10, 60))
def test_shortened_text_is_bounded(text: str, characters: int) -> None:
    assert len(shorten(text, characters)) <= max(characters + 80, 10)


SUMMARY = Summary("### Goal\nx", ["terminal {} -> ok: a"], ['line one\nline "two"', "ünï"], ["/a/b.py", "#12"])


def test_a_summary_is_read_back_as_it_was_written() -> None:
    assert parse(render(SUMMARY)) == SUMMARY
    assert parse("hello") is None and render(SUMMARY).startswith(MARK) and render(SUMMARY).endswith(END)


@given(st.text(max_size=300), st.lists(st.text(max_size=50), max_size=5))
def test_whatever_is_said_the_records_stay_apart(body: str, said: list[str]) -> None:
    found = parse(render(Summary(body, ["done -> ok"], said, ["name"])))
    assert (
        found is not None
        and list(found.done) == ["done -> ok"]
        and list(found.said) == said
        and list(found.names) == ["name"]
    )


def test_the_users_words_are_bounded_newest_first_and_say_what_is_missing() -> None:
    said = merge_said(["old " * 100], [f"message {n} " + "x" * 200 for n in range(50)], 3_000)
    assert sum(map(len, said)) < 3_200 and said[-1].startswith("message 49") and said[0] == "(earlier messages are left out)"
    assert merge_said(said, ["new"], 3_000)[0] == "(earlier messages are left out)"
    assert merge_said([], ["short"], 3_000) == ["short"]


def test_the_record_of_calls_is_bounded_counts_repeats_and_never_forgets_a_tool() -> None:
    lines = [f'terminal {{"command": "make {n % 7}"}} -> ok: done' for n in range(70)]
    assert ledger.merge([], lines, 4_000) == [f"{line} (10 times)" for line in lines[:7]]
    many = [f'send_mail {{"to": "person{n}@example.org"}} -> ok: sent' for n in range(400)]
    merged = ledger.merge(["write_file {} -> ok"], many, 2_400)
    assert sum(len(line) + 3 for line in merged) < 2_900
    assert merged[0].startswith("older calls without detail: ") and "write_file x1" in merged[0]
    counted = int(merged[0].split("send_mail x")[1].split(",")[0])
    assert counted + len(merged) - 1 == 400 and "person399" in merged[-1]
    again = ledger.merge(merged, ["terminal {} -> ok"], 2_400)
    assert sum(len(line) + 3 for line in again) < 2_900 and "write_file x1" in again[0]


def test_names_are_found_and_the_newest_kept() -> None:
    text = (
        "See https://example.org/a?b=1, src/app.py and /etc/hosts; commit 1a2b3c4d5e; issue #77; 10.0.0.1:8080; "
        "id 123e4567-e89b-12d3-a456-426614174000; https://x.example/?token=abcdefgh"
    )
    found = names.names_of([Message.user(text)], 1_000)
    for name in ("https://example.org/a?b=1", "src/app.py", "/etc/hosts", "1a2b3c4d5e", "#77", "10.0.0.1:8080"):
        assert name in found, name
    assert "123e4567-e89b-12d3-a456-426614174000" in found and not any("token" in name for name in found)
    assert names.merge(["a" * 20, "b" * 20], ["c" * 20], 45) == ["b" * 20, "c" * 20]


def test_hostile_text_is_searched_for_names_in_no_time() -> None:
    for text in (
        "a-" * 10_000,
        "a/" * 10_000,
        "/a" * 10_000,
        "a." * 10_000,
        "0a" * 10_000,
        "https://" * 2_500,
        "-a/b" * 5_000,
    ):
        started = time.process_time()
        names.names_of([Message.user(text)], 1_000)
        assert time.process_time() - started < 3, text[:8]


def test_secrets_that_a_cut_would_halve_are_taken_out_whole() -> None:
    secret = "ghp_" + "aB3dE6gH9j" * 4
    arguments = json.dumps({"command": "x" * 145 + " " + secret + " y"})
    (line,) = ledger.entries_of(tool_round([("a", "terminal", arguments, "ok")]))
    text = material_of(tool_round([("a", "terminal", arguments, "ok")]), 4_000)
    assert secret[:8] not in line and secret[:8] not in text


@pytest.mark.parametrize("characters", [500, 4_000, 40_000])
def test_material_is_bounded_and_has_both_ends_and_no_secret(characters: int) -> None:
    messages = [Message.user("first words"), *conversation(1, 50), Message.assistant("DB_PASSWORD=hunter2hunter2")]
    text = material_of(messages, characters)
    assert len(text) <= characters + 100 and text.startswith("USER: first words") and "hunter2" not in text


def test_the_check_names_what_is_wrong() -> None:
    before = conversation(3, 20)
    limits = budget()
    assert any("too little" in p for p in problems(before, before, limits))
    call, results = tool_round([("a", "terminal", "{}", "x")])
    assert illegal([Message.user("q"), call]) == [] and illegal([Message.user("q"), call, Message.assistant("x")]) != []
    assert illegal([results]) != [] and illegal([Message.user("a"), Message.user("b")]) != []
    assert any("newest message" in p for p in problems(before, [Message.user("other")], limits))
    assert any("round of calls" in p for p in problems([Message.user("q"), call, results], [Message.user("q")], limits))
