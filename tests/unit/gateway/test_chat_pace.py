"""What a growing answer looks like, and how often a chat is written to."""

from __future__ import annotations

from hermes_contracts.envelopes import Delta
from hermes_gateway.gateway.delivery.growing import GrowingAnswer
from hermes_gateway.gateway.delivery.pace import RateGate


class Turn:
    def __init__(self) -> None:
        self.answer, self.sequence, self.attempt = GrowingAnswer(100), 0, 1

    def hear(self, kind: str, text: str = "", tool: str = "", skip: int = 0) -> str:
        self.sequence += 1 + skip
        delta = Delta(turn_id="t", attempt=self.attempt, sequence=self.sequence, kind=kind, text=text, tool=tool)  # type: ignore[arg-type]
        self.answer.take(delta)
        return self.answer.shown()


def test_an_answer_grows() -> None:
    turn = Turn()
    assert turn.answer.shown() == ""
    assert turn.hear("reasoning", "secret thoughts") == "_Thinking_ …"
    assert turn.hear("text", "Hello ") == "Hello …"
    assert turn.hear("text", "you") == "Hello you …"
    assert turn.hear("tool_started", tool="terminal") == "_Using terminal_ …"
    assert turn.hear("tool_finished", tool="terminal") == "_Thinking_ …"
    assert turn.hear("notice", "The model is overloaded.") == "_The model is overloaded._ …"
    assert turn.hear("text", "It is there.") == "It is there. …"
    assert turn.hear("restart") == ""


def test_another_attempt_begins_anew_and_the_old_one_is_not_heard() -> None:
    turn = Turn()
    turn.hear("text", "First")
    turn.attempt, turn.sequence = 2, 0
    assert turn.hear("text", "Second") == "Second …"
    turn.attempt = 1
    assert turn.hear("text", "late") == "Second …"


def test_a_gap_is_shown() -> None:
    turn = Turn()
    turn.hear("text", "One ")
    assert turn.hear("text", "three", skip=1) == "… One three …"
    turn.hear("tool_started", tool="file")
    assert turn.hear("text", "Four") == "Four …"


def test_an_endless_answer_is_shown_in_part() -> None:
    assert Turn().hear("text", "x" * 500) == "x" * 100 + " …"


def test_writes_to_a_chat_keep_their_distance() -> None:
    gate = RateGate(1.0)
    assert gate.take(10.0) == 0.0
    assert gate.seconds_left(10.25) == 0.75
    assert gate.take(10.5) == 0.5
    assert gate.take(10.5) == 1.5
    gate.penalise(11.0, 30.0)
    assert gate.seconds_left(12.0) == 29.0
    gate.penalise(12.0, 1.0)
    assert gate.seconds_left(12.0) == 29.0
    assert gate.take(50.0) == 0.0
