"""Judges from outside what became of every message: pure, over what the API and the workspace show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.chaos.framework.load import answer

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Evidence:
    """Everything that is known of one session after the storm."""

    chat: str
    sent: Sequence[str]
    """Names of the messages, in the order in which they were accepted."""
    turns: Mapping[str, Json]
    """What the API says of each message, by name."""
    transcript: Sequence[Json]
    events: Sequence[Json]
    effects: Sequence[str]
    """Lines of the file that every message's command appends to."""


@dataclass(frozen=True)
class Verdict:
    """One session's: `faults` are broken promises, `counts` are what is worth knowing."""

    faults: tuple[str, ...]
    counts: Counter[str]


def judge(evidence: Evidence) -> Verdict:
    """Hold the evidence against what is promised."""
    faults = [*_answers(evidence), *_order(evidence), *_effects(evidence), *_events(evidence)]
    return Verdict(tuple(f"{evidence.chat}: {fault}" for fault in faults), _counts(evidence))


def _text(entry: Json) -> str:
    return "".join(part.get("text", "") for part in entry["parts"] if part.get("type") == "text")


def _results(evidence: Evidence, turn: str) -> list[Json]:
    entries = [entry for entry in evidence.transcript if entry["role"] == "tool" and entry["turn"] == turn]
    return [part for entry in entries for part in entry["parts"] if part.get("type") == "tool_result"]


def _claims(evidence: Evidence, name: str) -> bool:
    """Tell whether the model was told that the command was done."""
    results = _results(evidence, evidence.turns[name].get("turn", ""))
    return any(f"recorded {name}" in one["text"] and not one.get("is_error") for one in results)


def _warned(evidence: Evidence, name: str) -> bool:
    """Tell whether somebody was told that the command may not have been done: the model by a failed call, or the person."""
    turn = evidence.turns[name]
    if turn["state"] in ("failed", "dead"):
        return True
    return any(one.get("is_error") for one in _results(evidence, turn.get("turn", "")))


def _answers(evidence: Evidence) -> list[str]:
    faults = []
    said = Counter(_text(entry) for entry in evidence.transcript if entry["role"] == "assistant")
    for name in evidence.sent:
        turn = evidence.turns[name]
        if turn["state"] == "done" and turn["reply"] == answer(name):
            if said[answer(name)] != 1:
                faults.append(f"{name} is answered {said[answer(name)]} times in the transcript")
        elif turn["state"] not in ("done", "failed", "dead"):
            faults.append(f"{name} was lost: {turn['state']}")
        elif not turn["reply"]:
            faults.append(f"{name} ended as {turn['state']} without a word to the person")
        elif turn["state"] == "done":
            faults.append(f"{name} got another answer: {turn['reply']!r}")
    return faults


def _order(evidence: Evidence) -> list[str]:
    asked = [_named(_text(entry)) for entry in evidence.transcript if entry["role"] == "user"]
    ours = [name for name in asked if name in set(evidence.sent)]
    faults = [f"{name} was taken up {times} times" for name, times in Counter(ours).items() if times > 1]
    if ours != [name for name in evidence.sent if name in set(ours)]:
        faults.append(f"messages were taken up out of order: {ours}")
    done = list(dict.fromkeys(evidence.effects))
    if done != [name for name in evidence.sent if name in set(done)]:
        faults.append(f"effects are out of order: {done}")
    return faults


def _named(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith("message ")]
    return lines[-1].removeprefix("message ").strip() if lines else ""


def _effects(evidence: Evidence) -> list[str]:
    times = Counter(evidence.effects)
    faults = [f"{name} took effect {times[name]} times" for name in evidence.sent if times[name] > 1]
    faults += [
        f"{name} was reported as done and was not" for name in evidence.sent if not times[name] and _claims(evidence, name)
    ]
    faults += [
        f"{name}: nobody was told what became of its command"
        for name in evidence.sent
        if not _claims(evidence, name) and not _warned(evidence, name)
    ]
    return faults + [f"an effect of nobody: {name!r}" for name in times if name not in set(evidence.sent)]


def _ends(evidence: Evidence) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for event in evidence.events:
        if event["type"] in ("turn.done", "turn.failed", "turn.dead"):
            found.setdefault(event["turn"], []).append(event["type"])
    return found


def _events(evidence: Evidence) -> list[str]:
    ends = _ends(evidence)
    faults = []
    for name in evidence.sent:
        turn = evidence.turns[name]
        kinds = set(ends.get(turn.get("turn", ""), ()))
        if kinds != {f"turn.{turn['state']}"}:
            faults.append(f"{name} is {turn['state']}, and its events say {sorted(kinds)}")
    return faults


def _counts(evidence: Evidence) -> Counter[str]:
    counts: Counter[str] = Counter(messages=len(evidence.sent))
    times = Counter(evidence.effects)
    for name in evidence.sent:
        turn = evidence.turns[name]
        counts[turn["state"]] += 1
        claimed = _claims(evidence, name)
        if times[name] and not claimed:
            counts["effect, reported as interrupted"] += 1
        if not times[name] and not claimed:
            counts["no effect, reported as interrupted"] += 1
        if times[name] and claimed:
            counts["effect, reported as done"] += 1
    counts["final events that came again"] = sum(len(kinds) - 1 for kinds in _ends(evidence).values())
    return counts
