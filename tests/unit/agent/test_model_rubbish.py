"""What a model can send, and what a person gets all the same: an answer, or one plain sentence."""

from __future__ import annotations

import pytest

from hermes_agent.loop.outcome import EndReason
from hermes_agent.testing.model import Reply, ScriptedModel, call, say
from hermes_contracts.conversation import Role
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.model_api import (
    Finish,
    FinishReason,
    ModelError,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)
from tests.unit.agent.agent_scene import Scene

ECHO = '{"command": "echo hi"}'


async def test_a_misspelt_tool_is_corrected_and_an_unknown_one_listed_while_the_good_call_runs() -> None:
    scene = Scene(
        ScriptedModel(
            [
                call(("a", "Terminal", ECHO), ("b", "termnal", ECHO), ("c", "launch_rocket", "{}"), ("d", "terminal", ECHO)),
                say("ok"),
            ]
        )
    )
    outcome = await scene.send()
    a, b, c, d = scene.results()
    assert (a.name, b.name) == ("terminal", "terminal") and "hi" in a.text and "hi" in b.text and "hi" in d.text
    assert c.is_error and "no tool 'launch_rocket'" in c.text and "search_files" in c.text
    assert outcome.reply == "ok"
    assert [e.call_id for e in scene.store.turn("u1").journal if e.state == "started"] == ["a", "b", "d"]


async def test_three_rounds_of_unknown_tools_end_the_turn() -> None:
    scene = Scene(ScriptedModel(lambda _: call(("x", "nothing_like_it", "{}"))))
    outcome = await scene.send()
    assert outcome.reason is EndReason.UNKNOWN_TOOLS and len(scene.model.requests) == 3


async def test_broken_arguments_are_asked_for_again_without_a_trace() -> None:
    scene = Scene(ScriptedModel([call(("a", "terminal", '{"command": }')), call(("a", "terminal", ECHO)), say("ok")]))
    assert (await scene.send()).reply == "ok"
    assert scene.sandbox.ran == ["echo hi"] and len(scene.transcript) == 4


async def test_arguments_that_stay_broken_are_told_and_end_the_turn_without_poisoning_the_transcript() -> None:
    scene = Scene(ScriptedModel(lambda _: call(("a", "terminal", '{"command" "x"}'))))
    outcome = await scene.send()
    assert outcome.reason is EndReason.MALFORMED_CALLS and scene.sandbox.ran == []
    assert len(scene.model.requests) == 8, "three silent repeats in each of two rounds"
    assert all(c.arguments == "{}" for m in scene.transcript for c in m.tool_calls())
    assert all("valid JSON" in r.text for r in scene.results())


@pytest.mark.parametrize(
    ("arguments", "ran"),
    [('{"command": "echo 1",}', "echo 1"), ('[{"command": "echo 2"}]', "echo 2"),
     ('"{\\"command\\": \\"echo 3\\"}"', "echo 3"),
     ('{"command": "echo 4\x01"}', "echo 4"), ('{"command": "echo 5", "unknown": 1, "timeout": "7"}', "echo 5")],
)  # fmt: skip
async def test_small_faults_in_arguments_are_repaired(arguments: str, ran: str) -> None:
    scene = Scene(ScriptedModel([call(("a", "terminal", arguments)), say("ok")]))
    await scene.send()
    assert scene.sandbox.ran == [ran]


async def test_wrong_arguments_are_explained_by_field() -> None:
    scene = Scene(ScriptedModel([call(("a", "terminal", '{"cmd": "ls"}')), say("ok")]))
    await scene.send()
    assert scene.results()[0].text == "Not run: command: Field required"


async def test_a_cut_call_is_never_run_but_asked_for_again_with_more_room() -> None:
    cut = call(("a", "terminal", '{"command": "rm -rf /tmp/x'), reason=FinishReason.LENGTH)
    scene = Scene(ScriptedModel([cut, cut, call(("a", "terminal", ECHO)), say("ok")]))
    assert (await scene.send()).reply == "ok"
    assert scene.sandbox.ran == ["echo hi"]
    assert [r.max_output_tokens for r in scene.model.requests] == [None, 8192, 16384, None]


async def test_a_call_that_looks_whole_in_a_cut_answer_is_not_run() -> None:
    looks_whole = call(("a", "terminal", '{"command": "echo half"}'), reason=FinishReason.LENGTH)
    scene = Scene(ScriptedModel([looks_whole, call(("a", "terminal", ECHO)), say("ok")]))
    await scene.send()
    assert scene.sandbox.ran == ["echo hi"]


async def test_a_call_cut_for_ever_ends_with_a_sentence() -> None:
    scene = Scene(ScriptedModel(lambda _: call(("a", "terminal", '{"command": "ls'))))
    outcome = await scene.send()
    assert outcome.reason is EndReason.OUTPUT_LIMIT and scene.sandbox.ran == [] and len(scene.model.requests) == 5


async def test_a_cut_text_is_continued_and_stitched() -> None:
    parts = [say(f"part {n} ", reason=FinishReason.LENGTH) for n in range(3)]
    scene = Scene(ScriptedModel([*parts, say("end.")]))
    outcome = await scene.send()
    assert outcome.reply == "part 0 part 1 part 2 end." and outcome.reason is EndReason.STOP
    assert [m.role for m in scene.transcript] == [Role.USER, Role.ASSISTANT]
    assert scene.model.requests[1].messages[-2].text() == "part 0 "


async def test_a_text_without_end_is_kept_and_marked() -> None:
    scene = Scene(ScriptedModel(lambda _: say("more ", reason=FinishReason.LENGTH)))
    outcome = await scene.send()
    assert outcome.reason is EndReason.LENGTH and outcome.reply == ("more " * 5).strip()


async def test_an_empty_answer_after_tools_is_nudged_and_then_told() -> None:
    scene = Scene(ScriptedModel([call(("a", "terminal", ECHO)), say(""), say("   "), say("There it is.")]))
    assert (await scene.send()).reply == "There it is."
    assert "gave no answer" in scene.model.requests[2].messages[-1].text()
    silent = Scene(ScriptedModel(lambda _: say("")))
    outcome = await silent.send()
    assert outcome.reason is EndReason.EMPTY_ANSWER and "empty answer" in outcome.reply and len(silent.model.requests) == 4


async def test_thinking_that_eats_the_allowance_is_told() -> None:
    scene = Scene(ScriptedModel([say("", reason=FinishReason.LENGTH)]))
    outcome = await scene.send()
    assert outcome.reason is EndReason.OUTPUT_LIMIT and "thinking" in outcome.reply


async def test_a_refusal_is_a_plain_sentence() -> None:
    outcome = await Scene(ScriptedModel([say("I cannot.", reason=FinishReason.REFUSED)])).send()
    assert outcome.reason is EndReason.REFUSED and outcome.reply == "The model declined to answer this. I cannot."


def error(code: ErrorCode, *, retryable: bool = True, after: float | None = None) -> HermesError:
    return HermesError(code, "busy", retryable=retryable, retry_after_seconds=after)


async def test_passing_faults_are_retried_and_leave_no_trace() -> None:
    faults: list[Reply] = [
        [error(ErrorCode.RATE_LIMIT, after=0.001)],
        [TextDelta(text="half an ans"), error(ErrorCode.UNAVAILABLE)],
    ]
    scene = Scene(ScriptedModel([*faults, say("fine")]))
    outcome = await scene.send()
    assert outcome.reply == "fine" and [m.text() for m in scene.transcript] == ["hello", "fine"]


@pytest.mark.parametrize(
    ("fault", "reason", "calls", "words"),
    [
        ([error(ErrorCode.SERVER_ERROR)], EndReason.MODEL_ERROR, 3, "after 3 attempts"),
        ([ModelError(code=ErrorCode.OVERLOADED, message="x", retryable=True)], EndReason.MODEL_ERROR, 1, "could not answer"),
        ([error(ErrorCode.BUDGET, retryable=False)], EndReason.BUDGET, 1, "spending limit"),
        ([error(ErrorCode.IMAGE_REFUSED, retryable=False)], EndReason.MODEL_ERROR, 1, "picture"),
        ([error(ErrorCode.PAYLOAD_TOO_LARGE, retryable=False)], EndReason.CONTEXT_OVERFLOW, 1, "/new"),
        ([Finish(reason=FinishReason.TOOL_CALLS)][:0], EndReason.MODEL_ERROR, 3, "cut off"),
        ([error(ErrorCode.AUTH, retryable=False)], EndReason.MODEL_ERROR, 1, "refused the configured key"),
        ([error(ErrorCode.BILLING, retryable=False)], EndReason.MODEL_ERROR, 1, "payment"),
        ([error(ErrorCode.CONTEXT_OVERFLOW, retryable=False)], EndReason.CONTEXT_OVERFLOW, 1, "/new"),
        ([error(ErrorCode.CONTENT_REFUSED, retryable=False)], EndReason.REFUSED, 1, "declined"),
        ([ToolCallDelta(index=3, arguments="{}")], EndReason.MODEL_ERROR, 3, "never began"),
        ([ToolCallStart(index=n, id=f"c{n}", name="terminal") for n in range(65)], EndReason.MODEL_ERROR, 1, "64 calls"),
        ([TextDelta(text="x" * 400_000), Finish(reason=FinishReason.STOP)], EndReason.MODEL_ERROR, 1, "longer than"),
    ],
)  # fmt: skip
async def test_lasting_faults_end_with_a_sentence(fault: Reply, reason: EndReason, calls: int, words: str) -> None:
    scene = Scene(ScriptedModel(lambda _: fault))
    outcome = await scene.send()
    assert (outcome.outcome, outcome.reason, len(scene.model.requests)) == ("failed", reason, calls)
    assert words in outcome.reply and outcome.reply.count("\n") == 0
    assert scene.store.turn("u1").commits[0].reason == reason.value


async def test_control_characters_and_surrogates_never_reach_the_transcript() -> None:
    scene = Scene(ScriptedModel([say("be\x00ll\x07 \ttab")]))
    await scene.send("nul\x00 here")
    assert [m.text() for m in scene.transcript] == ["nul here", "bell \ttab"]


async def test_a_failed_turn_leaves_a_transcript_that_the_next_turn_can_use() -> None:
    replies = iter([[error(ErrorCode.AUTH, retryable=False)], say("now it works")])
    scene = Scene(ScriptedModel(lambda _: next(replies)))
    await scene.send("one", "u1")
    scene.restart()
    assert (await scene.send("two", "u2")).reply == "now it works"
    roles = [m.role for m in scene.model.requests[-1].messages]
    assert roles == [Role.USER, Role.ASSISTANT, Role.USER]
