"""Repetition: what the model is told, and where nobody watches, when the turn ends."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from hermes_agent.loop.guardrails import Guardrails
from hermes_agent.loop.limits import GuardrailLimits
from hermes_agent.loop.outcome import EndReason
from hermes_agent.testing.model import ScriptedModel, call, say
from hermes_agent.tools.executor import CheckedCall
from hermes_agent.tools.registry import tools_of
from hermes_contracts.conversation import ToolCallPart, ToolResultPart
from hermes_contracts.model_api import ModelRequest
from tests.unit.agent.agent_scene import Scene

TOOLS = tools_of(("terminal", "file"))
ARGUMENTS: dict[str, dict[str, object]] = {
    "read_file": {"path": "a"}, "write_file": {"path": "a", "content": "x"}, "terminal": {"command": "ls"},
    "search_files": {"pattern": "x"}, "process_manage": {"action": "list"},
}  # fmt: skip

Step = tuple[str, str, str, bool]
"""Tool, argument, result, failed."""


def run(steps: Sequence[Step], *, hard_stops: bool = True, **limits: int) -> tuple[list[str], EndReason | None, int]:
    """Return the results as the model sees them, why it had to end, and after how many calls."""
    guardrails = Guardrails(GuardrailLimits(**limits), hard_stops=hard_stops)
    shown = []
    for number, (name, argument, text, failed) in enumerate(steps):
        tool = TOOLS[name]
        part = ToolCallPart(id=f"c{number}", name=name, arguments=argument)
        checked = CheckedCall(part, tool, tool.arguments.model_validate(ARGUMENTS[name]))
        result = ToolResultPart(call_id=part.id, name=name, text=text, is_error=failed)
        shown.append(guardrails.observe(checked, result).text)
        if guardrails.halt:
            return shown, guardrails.halt.reason, number + 1
    return shown, None, len(steps)


def noticed(shown: Sequence[str]) -> list[int]:
    return [number for number, text in enumerate(shown, 1) if "[Notice:" in text]


def same(name: str, times: int, text: str = "r", *, failed: bool = False) -> list[Step]:
    return [(name, "{}", text, failed)] * times


def different(name: str, times: int, *, failed: bool = False) -> list[Step]:
    return [(name, f'{{"n": {n}}}', f"r{n}", failed) for n in range(times)]


TABLE: list[tuple[str, list[Step], list[int], EndReason | None, int]] = [
    ("same failing call: warned at 2, ends at 5", same("read_file", 9, failed=True), [2, 3, 4, 5],
     EndReason.REPEATED_FAILURES, 5),
    ("same tool fails: warned at 3, ends at 8", different("read_file", 9, failed=True), [3, 4, 5, 6, 7, 8],
     EndReason.REPEATED_FAILURES, 8),
    ("no progress: warned at the second repeat, ends at the fifth", same("read_file", 9), [3, 4, 5, 6],
     EndReason.NO_PROGRESS, 6),
    ("different results are progress", different("read_file", 60), [], None, 60),
    ("a terminal may fail", different("terminal", 20, failed=True), [], None, 20),
    ("waiting is told and never ends", same("process_manage", 30), list(range(3, 31)), None, 30),
    ("a success sets the tool's failures back", different("read_file", 2, failed=True) + different("read_file", 1)
     + [("read_file", "z", "e", True)] * 1, [], None, 4),
    ("a change sets everything back",
     [*same("read_file", 4, failed=True), ("write_file", "w", "ok", False), *same("read_file", 4, failed=True)],
     [2, 3, 4, 7, 8, 9], None, 9),
    ("a failing change sets nothing back",
     [*same("read_file", 4, failed=True), ("write_file", "w", "no", True), *same("read_file", 1, failed=True)],
     [2, 3, 4, 6], EndReason.REPEATED_FAILURES, 6),
]  # fmt: skip


@pytest.mark.parametrize(("story", "steps", "notices", "reason", "calls"), TABLE, ids=[row[0] for row in TABLE])
def test_thresholds(story: str, steps: list[Step], notices: list[int], reason: EndReason | None, calls: int) -> None:
    del story
    shown, ended, count = run(steps)
    assert (noticed(shown), ended, count) == (notices, reason, calls)
    watched, never, everything = run(steps, hard_stops=False)
    assert never is None and everything == len(steps) and noticed(watched)[: len(notices)] == notices


@pytest.mark.parametrize("period", [2, 3, 4])
def test_a_circle_is_noticed_in_its_third_round_and_ends_where_nobody_watches(period: int) -> None:
    circle: list[Step] = [("search_files", f'{{"n": {n}}}', f"r{n}", False) for n in range(period)]
    shown, reason, _ = run(circle * 12, no_progress_warn=99, no_progress_stop=5)
    assert noticed(shown)[0] == 3 * period and "calls came 3 times over" in shown[3 * period - 1]
    assert reason is EndReason.NO_PROGRESS
    longer: list[Step] = [("search_files", f'{{"n": {n}}}', f"r{n}", False) for n in range(5)]
    shown, _, _ = run(longer * 3, no_progress_warn=99, no_progress_stop=99)
    assert noticed(shown) == []


def test_only_the_newest_calls_are_remembered() -> None:
    guardrails = Guardrails(GuardrailLimits(history=64), hard_stops=True)
    assert guardrails._history.maxlen == 64


def test_a_long_result_that_is_known_becomes_a_stub_until_the_transcript_is_compacted() -> None:
    long = "x" * 512
    shown, _, _ = run(same("search_files", 2, long))
    assert shown[0] == long and shown[1] == "[Unchanged: the same result as that of call c0, 512 characters.]"
    assert run(same("search_files", 2, "x" * 511))[0][1] == "x" * 511
    guardrails = Guardrails(GuardrailLimits(), hard_stops=True)
    tool = TOOLS["search_files"]
    for number, forget in itertools.product(range(1), (False, True)):
        part = ToolCallPart(id=f"c{number}{forget}", name="search_files", arguments="{}")
        checked = CheckedCall(part, tool, tool.arguments.model_validate(ARGUMENTS["search_files"]))
        if forget:
            guardrails.forget_results()
        assert guardrails.observe(checked, ToolResultPart(call_id=part.id, name="search_files", text=long)).text == long


@pytest.mark.parametrize(("channel", "ends"), [("api", False), ("terminal", False), ("webhook", True), ("slack", True),
                                               ("telegram", True), ("cron", True)])  # fmt: skip
async def test_attended_channels_are_told_and_the_others_stopped(channel: str, ends: bool) -> None:
    def stubborn(request: ModelRequest) -> object:
        return say("I give up.") if len(request.messages) > 16 else call(("a", "read_file", '{"path": "missing"}'))

    scene = Scene(ScriptedModel(stubborn))  # type: ignore[arg-type]
    outcome = await scene.send(channel=channel)
    if ends:
        assert outcome.reason is EndReason.REPEATED_FAILURES and "no such file" in outcome.reply
        assert len(scene.results()) == 5
    else:
        assert outcome.reply == "I give up." and "failed 7 times" in scene.results()[6].text
