"""Where a run stands follows from its turns and questions alone."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_contracts import names
from hermes_contracts.conversation import Usage
from hermes_contracts.store_api import Approval, Turn, TurnState
from hermes_gateway.gateway.approvals.desk import update_id
from hermes_gateway.gateway.responses_api.records import ResponseRecord
from hermes_gateway.gateway.runs_api.standing import Questions, Standing, questions_of

SID, OWNER = "s" + "a" * 25, "ada"
RECORD = ResponseRecord(
    id="run_1", owner=OWNER, namespace="team", model="helper", sid=SID, client_id="c", update_id="u1", created_at=0
)
FIRST = names.turn_id(SID, "api", OWNER, "u1")


def question(name: str, turn: str = FIRST, state: str = "pending", *, asked_at: float = 1, **more: Any) -> Approval:
    return Approval.model_validate(
        {
            "approval_id": name, "kind": "call", "state": state, "expired": False, "tool": "terminal", "arguments": "{}",
            "question": "?", "options": (), "turn_id": turn, "asked_at": asked_at, "deadline": 9, **more,
        }
    )  # fmt: skip


def after(name: str) -> str:
    return names.turn_id(SID, "api", OWNER, update_id(name))


def turn(state: TurnState = TurnState.DONE, reason: str = "stop") -> Turn:
    return Turn(found=True, turn_id="t", state=state, reply="said", reason=reason, usage=Usage(input_tokens=1))


ASKED = turn(reason="asked")


def test_a_runs_questions_are_those_of_its_turns_and_of_the_turns_they_led_to() -> None:
    first = question("2aaaaaaa", state="approved")
    second = question("3aaaaaaa", after("2aaaaaaa"), asked_at=2)
    foreign = question("4aaaaaaa", "t-of-another-message", asked_at=3)
    assert questions_of(RECORD, (foreign, second, first)).all == (first, second)


@pytest.mark.parametrize(
    ("turns", "asked", "status"),
    [
        ((Turn(found=False),), (), "queued"),
        ((turn(TurnState.RUNNING, ""),), (), "running"),
        ((turn(),), (), "completed"),
        ((turn(TurnState.FAILED, "x"),), (), "failed"),
        ((ASKED,), (question("2aaaaaaa"),), "waiting_for_approval"),
        ((ASKED,), (question("2aaaaaaa", expired=True),), "failed"),
        ((ASKED, Turn(found=False)), (question("2aaaaaaa", state="approved"),), "running"),
        ((ASKED, turn()), (question("2aaaaaaa", state="denied"),), "completed"),
        ((ASKED, turn(reason="stopped_by_user")), (question("2aaaaaaa", state="approved"),), "cancelled"),
        ((ASKED, turn()), (question("2aaaaaaa", state="approved"), question("3aaaaaaa")), "waiting_for_approval"),
        ((ASKED, turn(TurnState.RUNNING)), (question("2aaaaaaa", state="approved"), question("3aaaaaaa")), "running"),
    ],
)
def test_a_status_is_one_word_for_all_of_it(turns: tuple[Turn, ...], asked: tuple[Approval, ...], status: str) -> None:
    standing = Standing(turns, Questions(asked))
    assert standing.status == status
    assert (standing.answer is not None) == (status in ("completed", "failed", "cancelled"))
    assert standing.usage.input_tokens == sum(one.found for one in turns)


def test_what_was_answered_is_followed_before_what_waits_and_silence_ends_it() -> None:
    waits, answered = question("2aaaaaaa"), question("3aaaaaaa", state="approved", asked_at=2)
    questions = Questions((waits, answered))
    assert questions.next([]) == answered
    assert questions.next(["3aaaaaaa"]) == waits
    assert Questions((question("2aaaaaaa", expired=True),)).next([]) is None
