"""Where a run stands when it had to ask somebody: what waits for an answer, and which turns went on with one.

A turn that asks ends, and its answer is a message with an id that follows from the question's. So a run is its first turn,
and all that came of its questions; nothing of this is kept anywhere but in the questions themselves. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hermes_contracts import names
from hermes_contracts.conversation import Usage
from hermes_contracts.store_api import Approval, Turn
from hermes_gateway.gateway.approvals.desk import update_id
from hermes_gateway.gateway.openai_api.calls import CHANNEL
from hermes_gateway.gateway.responses_api.records import ResponseRecord
from hermes_gateway.gateway.runs_api.events import status_of
from hermes_gateway.gateway.runs_api.protocol import RunStatus
from hermes_gateway.gateway.turns import Answer, answer_of_turn

ASKED = "asked"
SILENCE = "Nobody answered in time, which means no: nothing was run."


@dataclass(frozen=True)
class Questions:
    """What a run has asked, oldest first."""

    all: tuple[Approval, ...] = ()

    @property
    def waiting(self) -> tuple[Approval, ...]:
        """Those that can still be answered."""
        return tuple(one for one in self.all if one.state == "pending" and not one.expired)

    @property
    def answered(self) -> tuple[Approval, ...]:
        """Those that a turn goes on with."""
        return tuple(one for one in self.all if one.state != "pending")

    def next(self, followed: Sequence[str]) -> Approval | None:
        """Return the question whose turn comes next for whoever has followed some, or None when the run is at its end."""
        left = [one for one in (*self.answered, *self.waiting) if one.approval_id not in followed]
        return left[0] if left else None


def questions_of(record: ResponseRecord, approvals: Iterable[Approval]) -> Questions:
    """Return a run's questions among its session's, whatever their order."""
    turns = {_turn_id(record, record.update_id)}
    mine = []
    for approval in sorted(approvals, key=lambda one: one.asked_at):
        if approval.turn_id in turns:
            mine.append(approval)
            turns.add(_turn_id(record, update_id(approval.approval_id)))
    return Questions(tuple(mine))


def choice_of(approval: Approval) -> str:
    """Return what was answered, as clients say it."""
    return approval.scope or ("deny" if approval.state == "denied" else approval.answer)


@dataclass(frozen=True)
class Standing:
    """A run as it is now. `turns`: its own, then those of the questions that were answered."""

    turns: tuple[Turn, ...]
    questions: Questions

    @property
    def answer(self) -> Answer | None:
        """How the run ended; None while it goes on, or waits."""
        answers = [answer_of_turn(turn) for turn in self.turns]
        if self.questions.waiting or answers[-1] is None or None in answers:
            return None
        return answers[-1]

    @property
    def silenced(self) -> bool:
        """Whether the run ended because nobody answered."""
        return self.turns[-1].reason == ASKED and not self.questions.waiting

    @property
    def status(self) -> RunStatus:
        """Say it in a word."""
        answer = self.answer
        if answer is not None:
            return "failed" if self.silenced else status_of(answer)
        if not self.turns[0].found:
            return "queued"
        running = any(answer_of_turn(turn) is None for turn in self.turns)
        return "running" if running else "waiting_for_approval"

    @property
    def usage(self) -> Usage:
        """Tokens of all its turns."""
        return sum((turn.usage for turn in self.turns), Usage())


def _turn_id(record: ResponseRecord, update: str) -> str:
    return names.turn_id(record.sid, CHANNEL, record.owner, update)
