"""Long conversations in the real loop: they go on, nothing is asked twice for nothing, and nothing that matters is lost."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

import pytest

from hermes_agent.compression.compaction import NEXT_TIME, WITHOUT_MODEL
from hermes_agent.compression.side_model import Patience
from hermes_agent.compression.sizes import transcript_tokens
from hermes_agent.compression.summary import MARK
from hermes_agent.loop.outcome import EndReason
from hermes_agent.loop.transcript import Transcript
from hermes_agent.stop import StopReason, StopSignal
from hermes_agent.testing.model import Reply, Wait, call, say, step_of
from hermes_contracts.conversation import Message, Role
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.model_api import FinishReason, ModelRequest, TextDelta
from hermes_contracts.store_api import CommandKind
from tests.unit.agent.agent_scene import CONVERSATION, Scene
from tests.unit.agent.compression_scene import CountingModel, compacting, words

MARKER = b'],"version":'


def chatty(words_each: int = 150) -> Callable[[ModelRequest], Reply]:
    rng = random.Random(1)
    return lambda _: say(words(rng, words_each))


def busy(rounds: int, output: str = "x" * 1_500) -> Callable[[ModelRequest], Reply]:
    """Run so many commands in a turn, then answer."""
    counter = iter(range(1, 10_000))
    state = {"left": rounds}

    def reply(request: ModelRequest) -> Reply:
        if state["left"] > 0:
            state["left"] -= 1
            n = next(counter)
            return call((f"k{n}", "terminal", f'{{"command": "echo effect-{n} {output}"}}'))
        state["left"] = rounds
        return say("All steps are done.")

    return reply


def scene_of(script: Callable[[ModelRequest], Reply], window: int = 8_000, **config: object) -> tuple[Scene, CountingModel]:
    model = CountingModel(script, window)
    scene = Scene(model, compaction=compacting(**config))  # type: ignore[arg-type]
    return scene, model


def compactions(scene: Scene) -> list[tuple[int, int]]:
    return [(c.tokens_before, c.tokens_after) for c in scene.store.conversation(CONVERSATION).compactions]


async def test_two_hundred_turns_in_a_small_window_never_overflow_and_compact_rarely_and_well() -> None:
    scene, model = scene_of(chatty(), window=16_000)
    for n in range(200):
        outcome = await scene.send(f"question {n}: {words(random.Random(n), 60)}", f"u{n}")
        assert outcome.reason is EndReason.STOP
    done = compactions(scene)
    assert max(model.sizes) <= model.window, "nothing was refused"
    assert 4 <= len(done) <= 30, f"{len(done)} compactions in 200 turns"
    assert all(after < 0.9 * before for before, after in done), done
    assert len(model.summaries) == len(done), "each summary that was paid for was used"
    late = [after for _, after in done[len(done) // 2 :]]
    assert max(late) < 1.25 * max(after for _, after in done[: len(done) // 2]), "what is left does not creep up"


async def test_every_request_extends_the_one_before_but_for_compactions() -> None:
    scene, model = scene_of(chatty(100))
    breaks = 0
    for n in range(60):
        if n % 7 == 3:
            scene.restart(new_epoch=True)
        await scene.send(f"question {n}", f"u{n}")
    for before, after in zip(model.bodies, model.bodies[1:], strict=False):
        breaks += not after.startswith(before[: before.rindex(MARKER)])
    assert breaks == len(compactions(scene)) > 2


async def test_a_long_turn_is_compacted_between_its_rounds_and_keeps_the_request_and_the_record() -> None:
    scene, model = scene_of(busy(40))
    scene.limit(max_iterations=60)
    outcome = await scene.send("Please do the forty steps, carefully.")
    assert outcome.reply == "All steps are done." and max(model.sizes) <= model.window
    assert len(compactions(scene)) >= 3
    assert scene.sandbox.ran == [f"echo effect-{n} {'x' * 1_500}" for n in range(1, 41)], "each ran once, in order"
    last = model.requests[-1].messages
    whole = "\n".join(message.model_dump_json() for message in last)
    assert "Please do the forty steps, carefully." in last[0].text()
    assert all(f"effect-{n} " in whole or "older calls" in whole for n in range(1, 41))
    for request in model.requests:
        legal = Transcript("c")
        for message in request.messages:
            legal.add(message)
        assert len(legal.messages) == len(request.messages), "no request needed repairs"


async def test_the_person_sees_the_whole_conversation_and_that_it_was_compacted() -> None:
    scene, _ = scene_of(chatty())
    for n in range(30):
        await scene.send(f"question {n}", f"u{n}")
    texts = [m.text() for m in scene.transcript]
    assert all(f"question {n}" in texts for n in range(30))
    assert sum(text.startswith(MARK) for text in texts) == len(compactions(scene)) > 0
    assert any(kind == "notice" and "Compacting the conversation" in text for kind, text in scene.deltas.pieces)


async def test_without_compression_an_overflow_ends_the_turn_with_a_plain_sentence() -> None:
    scene, model = scene_of(chatty(), enabled=False)
    outcomes = [await scene.send(words(random.Random(n), 200), f"u{n}") for n in range(30)]
    assert outcomes[-1].reason is EndReason.CONTEXT_OVERFLOW and outcomes[-1].outcome == "failed"
    assert "/new" in outcomes[-1].reply and not model.summaries and not compactions(scene)


@pytest.mark.parametrize(("names_window", "window"), [(False, 8_500), (True, 6_500)])
async def test_an_overflow_that_nobody_saw_coming_is_compacted_away(names_window: bool, window: int) -> None:
    scene, model = scene_of(chatty(), window=200_000)
    for n in range(12):
        await scene.send(words(random.Random(n), 300), f"u{n}")
    model.window, model.names_window = window, names_window
    outcome = await scene.send("and now?", "last")
    assert outcome.reason is EndReason.STOP and len(compactions(scene)) == 1
    assert model.sizes[-1] <= window < model.sizes[-2]


async def test_a_refusal_that_length_does_not_explain_is_compacted_once_and_then_said() -> None:
    scene, model = scene_of(chatty(), window=100_000)
    for n in range(12):
        await scene.send(words(random.Random(n), 200), f"u{n}")
    model.script = lambda _: [HermesError(ErrorCode.CONTEXT_OVERFLOW, "too long, it says")]
    outcome = await scene.send("and now?", "last")
    assert outcome.reason is EndReason.CONTEXT_OVERFLOW and len(compactions(scene)) <= 1 and len(model.summaries) <= 1


async def test_too_many_bytes_are_scored_by_bytes_and_pictures_go_first() -> None:
    scene, model = scene_of(chatty(), window=1_000_000)
    for n in range(30):
        await scene.send("x" * 5_000, f"u{n}")
    model.max_bytes = 60_000
    outcome = await scene.send("and now?", "last")
    assert outcome.reason is EndReason.STOP and len(model.bodies[-1]) <= 60_000 and len(compactions(scene)) <= 2


async def test_a_message_that_alone_is_too_long_ends_plainly_after_few_tries() -> None:
    scene, model = scene_of(chatty())
    outcome = await scene.send("x" * 60_000)
    assert outcome.reason is EndReason.CONTEXT_OVERFLOW and len(model.requests) <= 4 and len(model.summaries) <= 1


async def test_a_failing_side_model_costs_two_attempts_then_a_rest_then_an_extract() -> None:
    scene, model = scene_of(chatty(), window=9_000)
    model.summary = lambda _: [HermesError(ErrorCode.OVERLOADED, "busy", retryable=True)]
    for n in range(40):
        outcome = await scene.send(words(random.Random(n), 60), f"u{n}")
        assert outcome.reason is EndReason.STOP
    assert compactions(scene) and max(model.sizes) <= model.window
    assert len(model.summaries) == 2, "during the rest no model is asked; what is urgent gets an extract"


async def test_a_silent_side_model_is_given_up_and_the_turn_goes_on() -> None:
    scene, model = scene_of(chatty(), patience=Patience(silence=0.05, total=0.2))
    model.summary = lambda _: [Wait(30)]
    started = time.monotonic()
    for n in range(25):
        assert (await scene.send(words(random.Random(n), 100), f"u{n}")).reason is EndReason.STOP
    assert compactions(scene) and time.monotonic() - started < 15


async def test_an_empty_or_refused_summary_is_a_failure() -> None:
    for reply in (say(""), say("I cannot.", reason=FinishReason.REFUSED)):
        scene, model = scene_of(chatty())
        model.summary = lambda _, reply=reply: reply  # type: ignore[misc]
        for n in range(25):
            await scene.send(words(random.Random(n), 100), f"u{n}")
        assert (
            compactions(scene) and "cannot" not in scene.store.conversation(CONVERSATION).compactions[0].messages[0].text()
        )


async def test_stop_during_the_summary_ends_the_turn_within_a_second_and_changes_nothing() -> None:
    scene, model = scene_of(chatty())
    model.summary = lambda _: [TextDelta(text="Let me"), Wait(30)]
    stop = StopSignal()
    for n in range(60):
        turn = asyncio.ensure_future(scene.send(words(random.Random(n), 100), f"u{n}", stop=stop))
        while not turn.done() and not model.summaries:
            await asyncio.sleep(0)
        if model.summaries:
            break
        await turn
    started = time.monotonic()
    stop.set(StopReason.USER)
    outcome = await turn
    assert time.monotonic() - started < 1 and outcome.reason is EndReason.STOPPED_BY_USER
    assert compactions(scene) == []


async def test_a_crash_right_after_the_compaction_was_written_repeats_neither_it_nor_any_call() -> None:
    scene, model = scene_of(busy(20))
    scene.limit(max_iterations=60)
    crashed = asyncio.Event()

    class Crash(BaseException):
        pass

    def hook(name: str, when: str) -> None:
        if name == "compact" and when == "after" and not crashed.is_set():
            crashed.set()
            raise Crash

    scene.store.hook = hook
    with pytest.raises(Crash):
        await scene.send("Do twenty steps.")
    ran, asked = len(scene.sandbox.ran), len(model.summaries)
    scene.restart(new_epoch=True)
    outcome = await scene.send("Do twenty steps.")
    assert outcome.reply == "All steps are done."
    assert len(scene.sandbox.ran) == 20 == len(set(scene.sandbox.ran)) and ran < 20
    after = model.requests[len(model.requests) - (20 - ran) - 1]
    assert after.messages[0].text().startswith(MARK) and "Do twenty steps." in after.messages[0].text()
    assert len(compactions(scene)) <= len(model.summaries) and asked >= 1


async def test_a_lost_answer_of_the_store_is_never_followed_by_another_write_of_that_step() -> None:
    scene, _ = scene_of(busy(20))
    scene.limit(max_iterations=60)
    lost = [True]

    def hook(name: str, when: str) -> None:
        if name == "compact" and when == "after" and lost:
            lost.clear()
            raise HermesError(ErrorCode.UNAVAILABLE, "no answer", retryable=True)

    scene.store.hook = hook
    with pytest.raises(HermesError):
        await scene.send("Do twenty steps.")
    scene.restart()
    assert (await scene.send("Do twenty steps.")).reply == "All steps are done."
    assert len(scene.sandbox.ran) == 20 == len(set(scene.sandbox.ran))


async def test_a_store_that_refuses_leaves_the_conversation_as_it_was() -> None:
    scene, model = scene_of(chatty())

    def hook(name: str, when: str) -> None:
        if name == "compact" and when == "before":
            raise HermesError(ErrorCode.CONFLICT, "somebody was faster")

    scene.store.hook = hook
    n = 0
    while not model.sizes or model.sizes[-1] < 0.9 * model.window:
        n += 1
        assert (await scene.send(words(random.Random(n), 20), f"u{n}")).reason is EndReason.STOP
    assert compactions(scene) == [] and len(model.summaries) == 2, "two passes in vain are enough"


async def test_a_loaded_conversation_is_measured_by_what_the_provider_had_counted() -> None:
    asks: list[int] = []
    scene, model = scene_of(chatty(20), window=10_000, asks=asks)
    while not model.sizes or model.sizes[-1] < 6_500:
        await scene.send(words(random.Random(len(model.sizes)), 40), f"u{len(model.sizes)}")
    assert asks == [], "the first answer names the window"
    scene.restart(new_epoch=True)
    await scene.send(words(random.Random(0), 700), "later")
    assert asks == [1] and len(compactions(scene)) == 1, "asked once, and compacted before the first call of this process"


async def test_an_estimate_alone_waits_for_one_real_request() -> None:
    scene, model = scene_of(chatty(20), window=10_000)
    while not model.sizes or model.sizes[-1] < 6_500:
        await scene.send(words(random.Random(len(model.sizes)), 40), f"u{len(model.sizes)}")
    kept = scene.store.conversation(CONVERSATION)
    kept.context_tokens = kept.context_sequence = 0
    scene.restart(new_epoch=True)
    await scene.send(words(random.Random(0), 700), "first")
    assert compactions(scene) == []
    await scene.send("and now", "second")
    assert len(compactions(scene)) == 1


async def test_a_model_that_counts_nothing_is_compacted_only_when_the_estimate_is_over_its_window() -> None:
    scene, model = scene_of(chatty())
    model.counts = False
    for n in range(60):
        assert (await scene.send(words(random.Random(n), 60), f"u{n}")).reason is EndReason.STOP
    assert 1 <= len(compactions(scene)) <= 20


async def test_a_threshold_that_cannot_be_met_costs_little_even_through_restarts() -> None:
    scene, model = scene_of(chatty(60), window=16_000, threshold_percent=12)
    for n in range(60):
        if n % 10 == 9:
            scene.restart(new_epoch=True)
        assert (await scene.send(words(random.Random(n), 30), f"u{n}")).reason is EndReason.STOP
    assert 1 <= len(model.summaries) == len(compactions(scene)) <= 24
    assert all(after < 0.95 * before for before, after in compactions(scene))


async def test_the_prompt_is_built_anew_and_frozen_with_the_compaction() -> None:
    scene, model = scene_of(chatty())
    await scene.send("hello", "u-first")
    before = model.requests[-1].system
    scene.today = scene.today.replace(month=12, day=24)
    await scene.send("hello again", "u-second")
    assert model.requests[-1].system == before, "frozen until a compaction"
    n = 0
    while not compactions(scene):
        n += 1
        await scene.send(words(random.Random(n), 100), f"u{n}")
    after = model.requests[-1].system
    assert after != before and "2026-12-24" in after
    scene.restart(new_epoch=True)
    await scene.send("and now?", "u-last")
    assert model.requests[-1].system == after


async def test_the_side_model_is_paid_for_by_the_turn() -> None:
    scene, _ = scene_of(chatty())
    n = 0
    while not compactions(scene):
        n += 1
        await scene.send(words(random.Random(n), 100), f"u{n}")
    usage = scene.store.conversation(CONVERSATION).compactions[0].usage
    assert usage.model_calls == 1 and usage.input_tokens > 500


async def test_compress_by_hand_tells_the_numbers_and_keeps_what_was_asked_for() -> None:
    scene, model = scene_of(chatty(), window=200_000)
    for n in range(15):
        await scene.send(words(random.Random(n), 200), f"u{n}")
    scene.store.put_compress("cmd1", "the schema")
    assert scene.runner is not None
    said = await scene.runner.compact(CONVERSATION, "the schema", "cmd1", StopSignal())
    ((before, after),) = compactions(scene)
    assert said == f"Compacted this conversation from {before:,} to {after:,} tokens." and after < before / 2
    assert "the schema" in model.summaries[0].messages[0].text()
    assert (await scene.send("and now?", "next")).reason is EndReason.STOP
    assert model.requests[-1].messages[-1].text() == "and now?"
    assert abs(model.sizes[-1] - after) < 0.25 * before, "the numbers are true"


async def test_compress_by_hand_says_when_there_is_nothing_to_do_and_when_no_model_wrote() -> None:
    scene, model = scene_of(chatty(2))
    await scene.send("hi", "u0")
    assert scene.runner is not None
    assert "nothing to compact" in await scene.runner.compact(CONVERSATION, "", "c0", StopSignal())
    model.summary = lambda _: [HermesError(ErrorCode.AUTH, "no key")]
    model.script = chatty()
    model.window = 200_000
    for n in range(1, 15):
        await scene.send(words(random.Random(n), 200), f"u{n}")
    scene.store.put_compress("c1")
    assert (await scene.runner.compact(CONVERSATION, "", "c1", StopSignal())).endswith(WITHOUT_MODEL)
    assert len(model.summaries) == 1, "a refused key is not tried twice"


async def test_a_store_that_takes_no_compaction_between_turns_gets_it_with_the_next_one() -> None:
    scene, model = scene_of(chatty(), window=200_000)
    for n in range(15):
        await scene.send(words(random.Random(n), 200), f"u{n}")
    assert scene.runner is not None
    assert await scene.runner.compact(CONVERSATION, "", "no-such-command", StopSignal()) == NEXT_TIME
    assert compactions(scene) == []
    await scene.send("and now?", "next")
    assert len(compactions(scene)) == 1 and model.requests[-1].messages[-1].text() == "and now?"


async def test_results_that_the_model_has_not_seen_yet_reach_it() -> None:
    def reply(request: ModelRequest) -> Reply:
        if step_of(request) == 0:
            return call(("big", "terminal", '{"command": "echo ' + "important-" * 700 + '"}'))
        assert any(m.role is Role.TOOL and "important-" in m.model_dump_json() for m in request.messages[-1:])
        return say("I have read it.")

    scene, model = scene_of(chatty())
    while not model.sizes or model.sizes[-1] < 0.6 * model.window:
        await scene.send(words(random.Random(len(model.sizes)), 40), f"u{len(model.sizes)}")
    model.script = reply
    assert (await scene.send("Print it.", "last")).reply == "I have read it."
    assert len(compactions(scene)) == 1


def test_the_scenes_fake_knows_compress() -> None:
    scene, _ = scene_of(chatty())
    scene.store.put_compress("x", "focus", CONVERSATION)
    assert scene.store.commands["x"].kind is CommandKind.COMPRESS
    assert transcript_tokens([Message.user("abcd")]) == 5
