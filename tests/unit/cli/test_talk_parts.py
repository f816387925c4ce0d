"""What a conversation is made of: events read, progress told, Markdown cut, commands found. All pure."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hermes_cli.api.shapes import Turn
from hermes_cli.api.sse import EventReader, ServerEvent
from hermes_cli.errors import CliError
from hermes_cli.show.text import ago, dollars, one_line, printable
from hermes_cli.talk.blocks import Blocks
from hermes_cli.talk.progress import Action, Anew, Ended, Notice, Progress, Text, Tool
from hermes_cli.talk.slash import SLASHES, help_lines, message_of, parse_line

STREAM = (
    ": heartbeat\n\n"
    'event: turn.started\nid: 7\ndata: {"a":"line\u2028separator, ü"}\n\n'
    "event: delta\r\ndata: one\r\ndata: two\r\n\r\n"
    "data:bare\n\n"
).encode()


@given(st.lists(st.integers(1, len(STREAM)), max_size=12))
def test_events_are_the_same_however_the_bytes_come(cuts: list[int]) -> None:
    reader, found = EventReader(), []
    places = sorted({0, len(STREAM), *cuts})
    for begin, end in itertools.pairwise(places):
        found += reader.feed(STREAM[begin:end])
    assert [(e.name, e.id) for e in found] == [("turn.started", "7"), ("delta", ""), ("message", "")]
    assert found[0].body() == {"a": "line\u2028separator, ü"}
    assert (found[1].data, found[2].data, reader.last_id) == ("one\ntwo", "bare", "7")


def test_an_endless_event_is_refused() -> None:
    reader = EventReader()
    with pytest.raises(ValueError, match="4 MiB"):
        for _ in range(10):
            reader.feed(b"data: " + b"x" * 1_000_000)


def _event(name: str, message: str = "m1", turn: str = "t1", **data: Any) -> ServerEvent:
    return ServerEvent(name, json.dumps({"message_id": message, "turn": turn, "data": data}), "1")


class Deltas:
    """The pieces of a turn, numbered."""

    def __init__(self, attempt: int = 1, turn: str = "t1") -> None:
        self._attempt, self._turn, self._number = attempt, turn, 0

    def __call__(self, kind: str, text: str = "", **more: str) -> ServerEvent:
        self._number += 1
        body = {"turn_id": self._turn, "attempt": self._attempt, "sequence": self._number, "kind": kind, "text": text}
        return ServerEvent("delta", json.dumps(body | more))

    def lose(self) -> None:
        self._number += 1


def _shown(progress: Progress, *events: ServerEvent) -> list[Action]:
    return [action for event in events for action in progress.take(event)[0]]


def _turn(reply: str, state: str = "done", reason: str = "") -> Turn:
    return Turn(session="s", message_id="m1", state=state, reply=reply, reason=reason)


def _text(actions: list[Action]) -> str:
    """What is on the screen in the end: text that turned out void is gone."""
    shown = ""
    for action in actions:
        shown = "" if isinstance(action, Anew) else shown + action.text if isinstance(action, Text) else shown
    return shown


def test_text_streams_and_the_stored_answer_adds_nothing() -> None:
    progress, say = Progress("m1"), Deltas()
    shown = _shown(progress, _event("turn.started"), say("text", "Hel"), say("text", "lo"))
    turn = _turn("Hello")
    assert [*shown, *progress.finish(turn)] == [Text("Hel"), Text("lo"), Ended(turn)]


def test_pieces_before_the_turn_is_known_are_kept() -> None:
    progress, say = Progress("m1"), Deltas()
    assert _shown(progress, say("text", "early ")) == []
    assert _text(_shown(progress, _event("turn.started"), say("text", "late"))) == "early late"


def test_other_messages_and_their_turns_are_not_ours() -> None:
    progress, other = Progress("m1"), Deltas(turn="t2")
    events = [_event("turn.started", "m2", "t2"), other("text", "not ours"), _event("turn.done", "m2", "t2")]
    assert [progress.take(event) for event in events] == [([], False)] * 3
    assert progress.take(_event("turn.done"))[1]


def test_a_lost_piece_is_made_good_by_the_stored_answer() -> None:
    progress, say = Progress("m1"), Deltas()
    shown = _shown(progress, _event("turn.started"), say("text", "one "))
    say.lose()
    shown += _shown(progress, say("text", "three"))
    assert shown == [Text("one ")]
    assert _text([*shown, *progress.finish(_turn("one two three"))]) == "one two three"


def test_another_attempt_that_repeats_itself_shows_nothing_twice() -> None:
    progress, first, second = Progress("m1"), Deltas(), Deltas(attempt=2)
    shown = _shown(progress, _event("turn.started"), first("text", "The answer"), second("text", "The "))
    shown += _shown(progress, second("text", "answer is 42"), first("text", "too late"))
    assert shown == [Text("The answer"), Text(" is 42")]


def test_another_attempt_that_says_something_else_begins_anew() -> None:
    progress, say = Progress("m1"), Deltas()
    shown = _shown(progress, _event("turn.started"), say("text", "Wrong"), say("restart"), say("text", "Right"))
    assert Anew() in shown
    assert _text([*shown, *progress.finish(_turn("Right"))]) == "Right"


def test_each_tool_is_told_once_whoever_tells_it() -> None:
    progress, say = Progress("m1"), Deltas()
    shown = _shown(
        progress,
        _event("turn.started"),
        say("text", "Let me look."),
        say("tool_started", tool="terminal", call_id="c1"),
        _event("tool.started", tool="terminal", call_id="c1"),
        say("tool_finished", tool="terminal", call_id="c1"),
        say("notice", "waiting"),
        say("text", "Done."),
    )
    assert shown[1:] == [Tool("terminal", False), Tool("terminal", True), Notice("waiting"), Text("Done.")]
    assert progress.finish(_turn("Done.")) == [Ended(_turn("Done."))]


@given(st.text("ab\n`- ", max_size=60), st.integers(1, 7))
def test_blocks_lose_nothing_but_empty_lines(text: str, size: int) -> None:
    blocks, done = Blocks(), []
    for begin in range(0, len(text), size):
        done += blocks.feed(text[begin : begin + size])
    rest = blocks.drop()
    assert "".join("\n".join([*done, rest]).split()) == "".join(text.split())


def test_fenced_code_stays_in_one_block() -> None:
    text = "Look:\n\n````python\na = 1\n\n```\nb = 2\n````\n\nThe end"
    blocks = Blocks()
    assert blocks.feed(text) == ["Look:", "````python\na = 1\n\n```\nb = 2\n````"]
    assert blocks.unfinished == "The end"


@pytest.mark.parametrize(
    ("line", "name", "argument"),
    [
        ("/stop", "stop", ""),
        ("/steer  look left ", "steer", "look left"),
        ("/reset", "new", ""),
        ("/comp", "compress", ""),
        ("/stat", "status", ""),
    ],
)
def test_commands_are_found(line: str, name: str, argument: str) -> None:
    found = parse_line(line)
    assert found is not None
    assert (found[0].name, found[1]) == (name, argument)


@pytest.mark.parametrize("line", ["hello /stop", "//etc/hosts is a file", "!ls /"])
def test_messages_are_no_commands(line: str) -> None:
    assert parse_line(line) is None
    assert message_of("//etc") == "/etc"


@pytest.mark.parametrize(
    ("line", "words"), [("/st", "/status, /steer, /stop"), ("/x", "no command"), ("/steer", "TEXT"), ("/", "no command")]
)
def test_what_is_no_command_says_what_is(line: str, words: str) -> None:
    with pytest.raises(CliError, match=words):
        parse_line(line)


def test_names_of_commands_are_unique() -> None:
    names = [name for slash in SLASHES for name in (slash.name, *slash.other_names)]
    assert len(names) == len(set(names))


def test_text_of_others_is_made_fit_for_a_terminal() -> None:
    assert printable("a\x1b[2J\x07b\u202ec\r\nd\te") == "a[2Jbc\nd\te"
    assert one_line("a\n b  c" * 30, 10) == "a b ca b …"
    assert [ago(s) for s in (-1, 59, 61, 7300, 200_000)] == ["0 s", "59 s", "1 min", "2 h", "2 d"]
    assert [dollars("0.00"), dollars("0.0123", 1), dollars("12.5"), dollars("?")] == ["$0.00", "≥ $0.0123", "$12.50", "?"]


def test_the_documents_list_the_commands() -> None:
    document = (Path(__file__).resolve().parents[3] / "docs" / "terminal.md").read_text()
    table = document.split("<!-- commands:begin -->\n")[1].split("<!-- commands:end -->")[0]
    assert table.splitlines() == [f"| `{name}` | {text} |" for name, text in help_lines()]
