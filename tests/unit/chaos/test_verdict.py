"""The checker of the chaos suite finds each kind of broken promise, and nothing where there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.chaos.framework.plan import TARGETS, Kill, plan
from tests.chaos.framework.verdict import Evidence, judge

NAMES = ("a-0000", "a-0001", "a-0002")


def _entry(role: str, turn: str, text: str) -> dict[str, Any]:
    return {"role": role, "turn": turn, "parts": [{"type": "text", "text": text}]}


def _result(turn: str, text: str, *, is_error: bool = False) -> dict[str, Any]:
    return {"role": "tool", "turn": turn, "parts": [{"type": "tool_result", "text": text, "is_error": is_error}]}


def _turn(name: str) -> list[dict[str, Any]]:
    return [
        _entry("user", f"t{name}", f"message {name}\n#script {{}}"),
        _result(f"t{name}", f"recorded {name}"),
        _entry("assistant", f"t{name}", f"answer {name}"),
    ]


def _evidence() -> Evidence:
    return Evidence(
        chat="a",
        sent=NAMES,
        turns={name: {"state": "done", "reply": f"answer {name}", "turn": f"t{name}"} for name in NAMES},
        transcript=[entry for name in NAMES for entry in _turn(name)],
        events=[{"type": "turn.done", "turn": f"t{name}"} for name in NAMES],
        effects=NAMES,
    )


def test_a_calm_sea_has_no_faults() -> None:
    verdict = judge(_evidence())
    assert verdict.faults == ()
    assert verdict.counts["effect, reported as done"] == len(NAMES)


def _interrupted(evidence: Evidence, effects: tuple[str, ...]) -> Evidence:
    transcript = list(evidence.transcript)
    transcript[1] = _result("ta-0000", "Interrupted: its effect is unknown", is_error=True)
    return replace(evidence, transcript=transcript, effects=effects)


def test_what_is_reported_as_interrupted_may_have_happened_or_not() -> None:
    assert judge(_interrupted(_evidence(), NAMES)).counts["effect, reported as interrupted"] == 1
    missing = judge(_interrupted(_evidence(), NAMES[1:]))
    assert missing.faults == ()
    assert missing.counts["no effect, reported as interrupted"] == 1


def _with_turn(**changed: Any) -> Evidence:
    evidence = _evidence()
    return replace(evidence, turns={**evidence.turns, "a-0001": {**evidence.turns["a-0001"], **changed}})


BROKEN: dict[str, tuple[Evidence, str]] = {
    "lost": (_with_turn(state="waiting", reply=""), "was lost: waiting"),
    "silent failure": (_with_turn(state="failed", reply=""), "without a word"),
    "answered with something else": (_with_turn(reply="answer a-0002"), "another answer"),
    "answered twice": (
        replace(_evidence(), transcript=[*_evidence().transcript, _entry("assistant", "ta-0001", "answer a-0001")]),
        "is answered 2 times",
    ),
    "taken up twice": (replace(_evidence(), transcript=[*_evidence().transcript, *_turn("a-0001")]), "taken up 2 times"),
    "taken up out of order": (
        replace(_evidence(), transcript=[entry for name in reversed(NAMES) for entry in _turn(name)]),
        "taken up out of order",
    ),
    "effects out of order": (replace(_evidence(), effects=tuple(reversed(NAMES))), "effects are out of order"),
    "effect twice": (replace(_evidence(), effects=(*NAMES[:2], *NAMES[1:])), "took effect 2 times"),
    "done, they said": (replace(_evidence(), effects=NAMES[1:]), "reported as done and was not"),
    "nothing was said of the command": (
        replace(_evidence(), transcript=[one for one in _evidence().transcript if one["role"] != "tool"]),
        "nobody was told what became of its command",
    ),
    "somebody else's effect": (replace(_evidence(), effects=(*NAMES, "b-0001")), "effect of nobody"),
    "ended in two ways": (
        replace(_evidence(), events=[*_evidence().events, {"type": "turn.dead", "turn": "ta-0001"}]), "its events say"
    ),
    "no final event": (replace(_evidence(), events=_evidence().events[1:]), "its events say []"),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_each_broken_promise_is_found(what: str) -> None:
    evidence, fault = BROKEN[what]
    assert any(fault in found for found in judge(evidence).faults), judge(evidence).faults


def test_a_plan_is_its_seed_and_spares_nobody() -> None:
    kills = plan(7, 20, 600)
    assert kills == plan(7, 20, 600)
    assert kills != plan(8, 20, 600)
    assert {target: sum(kill.target == target for kill in kills) for target in TARGETS} == dict.fromkeys(TARGETS, 20)
    assert [kill.at for kill in kills] == sorted(kill.at for kill in kills)
    assert max(kill.at for kill in kills) <= 600


def test_a_victim_is_picked_by_its_place_among_names() -> None:
    assert Kill(0, "gateway", "process", 0.99).of(["b", "a"]) == "b"
    assert Kill(0, "gateway", "process", 0.0).of(["b", "a"]) == "a"
