"""Answers that are empty, only thought, cut off or only announced: what the person gets of them."""

from __future__ import annotations

import pytest

from hermes_agent.loop.intent import announces
from hermes_agent.loop.judge import ANSWER_NOW, ASK_ANOTHER, DO_IT, NUDGE
from hermes_agent.loop.outcome import EndReason
from hermes_agent.loop.retry import TRY_AGAIN
from hermes_agent.loop.stitch import is_repetition, stitch
from hermes_agent.model.think import ThinkSplitter
from hermes_agent.testing.model import Piece, Reply, ScriptedModel, call, say, step_of
from hermes_contracts.conversation import ReasoningPart, Role, Usage
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.model_api import (
    Finish,
    FinishReason,
    ModelError,
    ModelRequest,
    ReasoningDelta,
    Restart,
    TextDelta,
)
from tests.unit.agent.agent_scene import Scene

ECHO = '{"command": "echo hi"}'


def finish(reason: FinishReason = FinishReason.STOP, *, window: int = 0, **usage: int) -> Finish:
    return Finish(reason=reason, usage=Usage(model_calls=1, **usage), context_window=window)


def thought(text: str = "hmm") -> list[Piece]:
    return [ReasoningDelta(text=text, signature="sig", origin="anthropic_messages/m"), finish()]


async def test_text_before_calls_that_only_tidied_up_is_the_answer_when_nothing_follows() -> None:
    kill = call(("a", "process_manage", '{"action": "kill", "session_id": "p1"}'), text="The server answers 200.")
    scene = Scene(ScriptedModel([kill, say("")]))
    outcome = await scene.send()
    assert outcome.reply == "The server answers 200." and len(scene.model.requests) == 2


async def test_text_before_a_real_tool_is_not_reused() -> None:
    scene = Scene(ScriptedModel([call(("a", "terminal", ECHO), text="Looking."), say(""), say("It says hi.")]))
    assert (await scene.send()).reply == "It says hi."


async def test_an_answer_of_thoughts_alone_is_carried_on_twice_with_its_thoughts() -> None:
    scene = Scene(ScriptedModel([thought("one"), thought("two"), say("Four.")]))
    assert (await scene.send("2+2?")).reply == "Four."
    carried = scene.model.requests[1].messages[-2:]
    assert carried[0].parts[0] == ReasoningPart(text="one", signature="sig", origin="anthropic_messages/m")
    assert carried[1].text() == ANSWER_NOW
    assert [m.text() for m in scene.transcript] == ["2+2?", "Four."], "nothing of it is stored"
    for_ever = Scene(ScriptedModel(lambda _: thought()))
    assert (await for_ever.send()).reason is EndReason.EMPTY_ANSWER
    assert len(for_ever.model.requests) == 1 + 2 + 3


def nothing(place: str) -> list[Piece]:
    return [finish().model_copy(update={"place": place})]


async def test_who_has_nothing_to_say_is_stood_in_for_by_the_profiles_next_model_for_the_rest_of_the_turn() -> None:
    def reply(request: ModelRequest) -> Reply:
        left = [name for name in ("model", "model.fallbacks[0]", "model.fallbacks[1]") if name not in request.passed_over]
        if left[0] != "model.fallbacks[1]":
            return nothing(left[0])
        return call(("a", "terminal", ECHO)) if step_of(request) == 0 else say("It says hi.")

    scene = Scene(ScriptedModel(reply))
    assert (await scene.send()).reply == "It says hi."
    first, second = ("model",), ("model", "model.fallbacks[0]")
    asked = [request.passed_over for request in scene.model.requests]
    assert asked == [(), (), (), (), first, second, second], "three repeats of the first, none of who stands in"
    assert [piece for piece in scene.deltas.pieces if piece[0] == "notice"] == [("notice", ASK_ANOTHER)] * 2
    scene.model.requests.clear()
    await scene.send("next", "u2")
    assert scene.model.requests[0].passed_over == (), "the next turn begins with the main model again"


async def test_who_stands_in_is_not_asked_again_and_again_in_a_later_round_either() -> None:
    def reply(request: ModelRequest) -> Reply:
        if len(request.passed_over) == 2:
            return say("It says hi.")
        if request.passed_over and step_of(request) == 0 and request.messages[-1].text() != NUDGE:
            return call(("a", "terminal", ECHO))[:-1] + nothing("model.fallbacks[0]")
        return nothing("model.fallbacks[0]" if request.passed_over else "model")

    scene = Scene(ScriptedModel(reply))
    assert (await scene.send()).reply == "It says hi."
    assert [len(request.passed_over) for request in scene.model.requests] == [0] * 4 + [1, 1, 1, 2], (
        "a call, nothing, a nudge"
    )


@pytest.mark.parametrize("code", [ErrorCode.NOT_CONFIGURED, ErrorCode.AUTH])
async def test_when_nobody_else_can_stand_in_the_person_hears_of_the_empty_answers(code: ErrorCode) -> None:
    scene = Scene(
        ScriptedModel(lambda request: [ModelError(code=code, message="no")] if request.passed_over else nothing("model"))
    )
    outcome = await scene.send()
    assert outcome.reason is EndReason.EMPTY_ANSWER and len(scene.model.requests) == 5


async def test_a_spending_limit_met_while_standing_in_is_told_as_what_it_is() -> None:
    spent: Reply = [ModelError(code=ErrorCode.BUDGET, message="5 USD")]
    scene = Scene(ScriptedModel(lambda request: spent if request.passed_over else nothing("model")))
    assert (await scene.send()).reason is EndReason.BUDGET


async def test_an_expensive_empty_answer_is_asked_for_again_only_once() -> None:
    scene = Scene(ScriptedModel(lambda _: [finish(cost_nano_usd=250_000_000)]))
    assert (await scene.send()).reason is EndReason.EMPTY_ANSWER
    assert len(scene.model.requests) == 2
    assert scene.store.turn("u1").commits[0].usage.cost_nano_usd == 500_000_000


async def test_a_broken_stream_leaves_what_was_said_and_says_why() -> None:
    scene = Scene(ScriptedModel(lambda _: [TextDelta(text="The first half")]))
    outcome = await scene.send()
    assert outcome.reason is EndReason.CUT_OFF and outcome.outcome == "done"
    assert outcome.reply.startswith("The first half\n\n(The model could not answer after 3 attempts.")


async def test_what_came_before_a_refusal_is_not_shown() -> None:
    refused: Reply = [TextDelta(text="Here is how"), ModelError(code=ErrorCode.CONTENT_REFUSED, message="x")]
    outcome = await Scene(ScriptedModel(lambda _: refused)).send()
    assert outcome.reason is EndReason.REFUSED and "Here is how" not in outcome.reply


async def test_another_attempt_of_the_service_voids_what_came_and_the_person_is_told() -> None:
    again = Restart(
        code=ErrorCode.OVERLOADED, message="The provider is busy; trying another.", attempt=2, provider="b", model="m"
    )
    lost = call(("x", "terminal", ECHO), text="Half an")[:-1]
    scene = Scene(ScriptedModel([[*lost, again, *say("Whole.")]]))
    assert (await scene.send()).reply == "Whole." and scene.sandbox.ran == []
    assert scene.deltas.pieces == [
        ("text", "Half an"), ("restart", ""), ("notice", "The provider is busy; trying another."), ("text", "Whole."),
    ]  # fmt: skip
    silent = Scene(ScriptedModel([[again, *say("Whole.")]]))
    await silent.send()
    assert [kind for kind, _ in silent.deltas.pieces] == ["notice", "text"], "nothing was shown that could be void"


async def test_a_connection_that_broke_is_tried_again_and_the_person_told() -> None:
    broken: Reply = [TextDelta(text="Half"), HermesError(ErrorCode.UNAVAILABLE, "x", retryable=True)]
    scene = Scene(ScriptedModel([broken, say("Whole.")]))
    assert (await scene.send()).reply == "Whole."
    assert scene.deltas.pieces == [("text", "Half"), ("restart", ""), ("notice", TRY_AGAIN), ("text", "Whole.")]


async def test_a_continuation_that_repeats_the_end_is_stitched_without_it() -> None:
    cut = say("The quick brown fox jumps over", reason=FinishReason.LENGTH)
    scene = Scene(ScriptedModel([cut, say("brown fox jumps over the lazy dog.")]))
    assert (await scene.send()).reply == "The quick brown fox jumps over the lazy dog."


async def test_a_text_is_not_continued_when_the_window_is_full_or_it_only_repeats() -> None:
    full: Reply = [TextDelta(text="a story"), finish(FinishReason.LENGTH, window=1000, input_tokens=400, output_tokens=100)]
    scene = Scene(ScriptedModel(lambda _: full))
    outcome = await scene.send()
    assert outcome.reason is EndReason.LENGTH and len(scene.model.requests) == 1
    stuck = Scene(ScriptedModel(lambda _: say("again and again, " * 200, reason=FinishReason.LENGTH)))
    await stuck.send()
    assert len(stuck.model.requests) == 1


@pytest.mark.parametrize(
    ("before", "after", "whole"),
    [
        ("", "x", "x"),
        ("abc", "abc", "abcabc"),
        ("one two three four", "three four five six", "one two three fourthree four five six"),
        ("one two three four five", " three four five six", "one two three four five six"),
    ],
)
def test_only_overlaps_beyond_chance_are_dropped(before: str, after: str, whole: str) -> None:
    assert stitch(before, after) == whole


def test_repetition_is_told_from_long_texts() -> None:
    assert is_repetition("na " * 500) and is_repetition("x" * 2500) and is_repetition("the same line\n" * 200)
    assert not is_repetition("na " * 50)
    assert not is_repetition(" ".join(f"word{n}" for n in range(1000)))


@pytest.mark.parametrize(
    ("text", "is_announcement"),
    [
        ("I'll check the file.", True),
        ("Let me look at the logs first:", True),
        ("Okay, I will now run the tests.", True),
        ("The port is in use. I'm going to find the process.", True),
        ("Now I'll create the script…", True),
        ("The answer is 4.", False),
        ("Done. Let me know if you need anything else.", False),
        ("I'll check it once you send me the file.", False),
        ("Shall I run the tests?", False),
        ("I will be there.", False),
        ("I'll run this:\n```\nls\n```", False),
        ("Let me explain. The sky is blue because of scattering.", False),
        ("I'll check the file.\n\nIt holds 3 lines, all of them comments", False),
        ("", False),
        ("I'll check. " + "x" * 600 + ".", False),
    ],
)
def test_an_announcement_is_told_from_an_answer(text: str, is_announcement: bool) -> None:
    assert announces(text) is is_announcement


async def test_a_model_that_announces_is_told_to_act_at_most_twice_and_keeps_its_words() -> None:
    def acts(request: ModelRequest) -> Reply:
        last = request.messages[-1]
        if last.role is Role.TOOL:
            return say("It says hi.")
        return call(("a", "terminal", ECHO)) if last.text() == DO_IT else say("I'll run the command.")

    scene = Scene(ScriptedModel(acts))
    assert (await scene.send()).reply == "It says hi." and scene.sandbox.ran == ["echo hi"]
    assert scene.transcript[1].text() == "I'll run the command.\n\n" and len(scene.transcript) == 4
    assert ("restart", "") not in scene.deltas.pieces, "what was shown stays"

    talker = Scene(ScriptedModel(lambda _: say("Let me check that.")))
    outcome = await talker.send()
    assert len(talker.model.requests) == 3 and outcome.reason is EndReason.STOP


SPLITS = [
    ("<think>secret</think>\n\nHello", "Hello", "secret"),
    ("<thinking>a<b</thinking>Hi", "Hi", "a<b"),
    ("Hi\n<think>x</think>\nthere", "Hi\nthere", "x"),
    ("The tag `<think>` is inline", "The tag `<think>` is inline", ""),
    ("a < b and b > c\n<b>bold</b>", "a < b and b > c\n<b>bold</b>", ""),
    ("<think>never closed", "", "never closed"),
    ("thought without a start\n</think>\nAnswer", "Answer", "thought without a start\n"),
    ("<THINK>x</THINK>y", "y", "x"),
    ("<thin", "<thin", ""),
]


@pytest.mark.parametrize(("text", "said", "thought"), SPLITS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_thinking_in_a_text_is_found_however_it_is_cut(text: str, said: str, thought: str, size: int) -> None:
    splitter, found = ThinkSplitter(), dict[str, str](text="", thought="")
    pieces = [pair for start in range(0, len(text), size) for pair in splitter.feed(text[start : start + size])]
    for kind, piece in [*pieces, *splitter.end()]:
        if kind == "orphan":
            found = {"text": "", "thought": found["thought"] + found["text"]}
        else:
            found[kind] += piece
    assert (found["text"], found["thought"]) == (said, thought)


async def test_thinking_in_a_text_is_neither_shown_nor_stored_as_text() -> None:
    pieces: list[Piece] = [TextDelta(text=piece) for piece in ("<th", "ink>I wonder", " about 4</thi", "nk>\n\nFo", "ur.")]
    scene = Scene(ScriptedModel([[*pieces, finish()]]))
    assert (await scene.send()).reply == "Four."
    assert "".join(text for kind, text in scene.deltas.pieces if kind == "text") == "Four."
    assert "".join(text for kind, text in scene.deltas.pieces if kind == "reasoning") == "I wonder about 4"
    only = Scene(ScriptedModel([[TextDelta(text="<think>hmm</think>"), finish()], say("Four.")]))
    assert (await only.send()).reply == "Four." and only.model.requests[1].messages[-1].text() == ANSWER_NOW


async def test_reasoning_keeps_what_its_provider_wants_back() -> None:
    pieces: list[Piece] = [
        ReasoningDelta(text="a", origin="responses/m"), ReasoningDelta(text="b", item_id="rs_1", data="enc"),
        ReasoningDelta(data="redacted", origin="anthropic_messages/m"), *call(("a", "terminal", ECHO)),
    ]  # fmt: skip
    scene = Scene(ScriptedModel([pieces, say("ok")]))
    await scene.send()
    assert scene.transcript[1].parts[:2] == (
        ReasoningPart(text="ab", item_id="rs_1", data="enc", origin="responses/m"),
        ReasoningPart(text="", data="redacted", origin="anthropic_messages/m"),
    )
