"""What a person gets from a turn, and what is kept of it."""

from __future__ import annotations

from hermes_agent.loop.outcome import EndReason
from hermes_agent.testing.model import ScriptedModel, call, say
from hermes_contracts.conversation import Role
from hermes_contracts.errors import ErrorCode, HermesError
from tests.unit.agent.agent_scene import CONVERSATION, Scene


async def test_hello_is_answered_and_kept() -> None:
    scene = Scene(ScriptedModel([say("Hello.")]))
    outcome = await scene.send("hello")
    assert (outcome.outcome, outcome.reason, outcome.reply) == ("done", EndReason.STOP, "Hello.")
    assert [(m.role, m.text()) for m in scene.transcript] == [(Role.USER, "hello"), (Role.ASSISTANT, "Hello.")]
    assert scene.deltas.pieces == [("text", "Hello.")]
    assert scene.store.calls == ["open_turn", "load", "freeze_prompt", "commit"]


async def test_a_tool_round_is_written_before_and_after_it_runs() -> None:
    scene = Scene(ScriptedModel([call(("c1", "terminal", '{"command": "echo hi"}'), text="Looking."), say("It says hi.")]))
    seen: list[list[str]] = []
    scene.sandbox.hook = lambda when: seen.append([f"{e.call_id} {e.state}" for e in scene.store.turn("u1").journal])

    outcome = await scene.send()

    assert outcome.reply == "It says hi." and scene.sandbox.ran == ["echo hi"]
    assert seen[0] == ["c1 started"]
    assert [f"{e.call_id} {e.state}" for e in scene.store.turn("u1").journal] == ["c1 started", "c1 finished"]
    assert scene.results()[0].text.startswith("hi\n[exit code 0")
    usage = scene.store.turn("u1").commits[0].usage
    assert usage.model_calls == 1, "each step carries its own usage"


async def test_calls_of_one_message_come_back_in_order_and_independent_ones_run_together() -> None:
    scene = Scene(
        ScriptedModel(
            [
                call(
                    ("a", "read_file", '{"path": "one.txt"}'),
                    ("b", "terminal", '{"command": "echo two"}'),
                    ("c", "read_file", '{"path": "three.txt"}'),
                ),
                say("ok"),
            ]
        )
    )
    scene.sandbox.files = {"one.txt": b"first\n", "three.txt": b"third\n"}
    await scene.send()
    assert [r.call_id for r in scene.results()] == ["a", "b", "c"]
    assert [r.text.split("\n")[0].strip() for r in scene.results()] == ["1|first", "two", "1|third"]


async def test_the_second_turn_needs_no_load_and_a_new_process_loads_page_by_page() -> None:
    scene = Scene(ScriptedModel([say("one"), say("two"), say("three")]))
    scene.store.page = 1
    await scene.send("a", "u1")
    scene.store.calls.clear()
    await scene.send("b", "u2")
    assert scene.store.calls == ["open_turn", "commit"]
    scene.restart(new_epoch=True)
    await scene.send("c", "u3")
    assert scene.store.calls.count("load") == 5
    assert [m.text() for m in scene.model.requests[-1].messages] == ["a", "one", "b", "two", "c"]


async def test_the_iteration_limit_gives_a_summary_and_says_so() -> None:
    def endless(request: object) -> list[object]:
        last = request.messages[-1]  # type: ignore[attr-defined]
        asked = last.role is Role.USER and "Do not call tools" in last.text()
        return say("I did a lot.") if asked else call(("c", "terminal", '{"command": "echo x"}'))  # type: ignore[return-value]

    scene = Scene(ScriptedModel(endless))  # type: ignore[arg-type]
    scene.limit(max_iterations=2)
    outcome = await scene.send()
    assert outcome.reason is EndReason.ITERATION_LIMIT and outcome.outcome == "done"
    assert outcome.reply.startswith("I did a lot.") and "limit of 2 steps" in outcome.reply
    assert len(scene.model.requests) == 3
    assert all("Do not call tools" not in m.text() for m in scene.transcript), "scaffolding is never kept"


async def test_the_prompt_is_frozen_for_a_conversation_whatever_changes_later() -> None:
    scene = Scene(ScriptedModel([say("one"), say("two")]))
    await scene.send("a", "u1", instructions="Speak like a pirate.")
    scene.restart()
    scene.today = scene.today.replace(day=1)
    await scene.send("b", "u2", instructions="Speak like a lawyer.")
    first, second = scene.model.requests
    assert first.system == second.system and first.tools == second.tools
    assert "pirate" in first.system and "lawyer" not in second.system and "Monday, 2026-11-30" in second.system
    assert len(first.system.encode()) <= 4096
    assert [t.name for t in first.tools] == sorted(t.name for t in first.tools)
    assert scene.store.prompts[CONVERSATION].system == first.system


async def test_a_bug_in_the_agent_still_gives_the_person_an_answer() -> None:
    def broken(_: object) -> list[object]:
        raise RuntimeError("bug")

    scene = Scene(ScriptedModel(broken))  # type: ignore[arg-type]
    outcome = await scene.send()
    assert outcome.reason is EndReason.INTERNAL_ERROR and "send it again" in outcome.reply
    assert scene.store.turn("u1").commits[0].outcome == "failed"


async def test_call_ids_are_unique_in_a_conversation_and_fit_every_provider() -> None:
    scene = Scene(
        ScriptedModel(
            [
                call(("call_1", "terminal", '{"command": "echo 1"}'), ("call_1", "terminal", '{"command": "echo 2"}')),
                call(("call_1", "terminal", '{"command": "echo 3"}'), ("", "terminal", '{"command": "echo 4"}')),
                call(("weird id/…", "terminal", '{"command": "echo 5"}')),
                say("ok"),
            ]
        )
    )
    await scene.send()
    ids = [r.call_id for r in scene.results()]
    assert len(set(ids)) == 5 and ids[0] == "call_1" and "weird_id" in ids[4]
    assert [r.text[0] for r in scene.results()] == ["1", "2", "3", "4", "5"]


async def test_a_step_that_the_store_will_never_take_ends_the_turn_with_a_sentence_at_once() -> None:
    scene = Scene(ScriptedModel([call(("c1", "terminal", '{"command": "echo hi"}')), say("never")]))

    def refuse(name: str, when: str) -> None:
        if name == "append" and when == "before" and scene.sandbox.ran:
            raise HermesError(ErrorCode.TOO_LARGE, "the step is too large")

    scene.store.hook = refuse
    outcome = await scene.send()
    assert outcome.reason is EndReason.INTERNAL_ERROR and scene.store.turn("u1").commits[0].reply == outcome.reply


async def test_the_same_command_with_the_same_output_is_noticed_whatever_its_duration() -> None:
    script = [call(("c", "terminal", '{"command": "fail"}')) for _ in range(3)]
    scene = Scene(ScriptedModel([*script, say("ok")]))
    await scene.send()
    assert ["Notice" in r.text for r in scene.results()] == [False, False, True]
