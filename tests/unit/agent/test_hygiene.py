"""What the transcript may hold, and what is sent all the same: a bad row never ends a conversation."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, strategies as st

from hermes_agent.loop.load import load_transcript
from hermes_agent.loop.repair import UNREADABLE, read_row, repair
from hermes_agent.loop.transcript import LOST_ANSWER, Transcript
from hermes_agent.model.collect import RawCall
from hermes_agent.model.hygiene import balanced, parse_call, readable_arguments, trimmed
from hermes_agent.prompt.first_message import STEERED
from hermes_agent.store_port import Rep, Req
from hermes_agent.testing.model import ScriptedModel, call, say
from hermes_contracts.conversation import (
    Message,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from hermes_contracts.store_api import Method
from tests.unit.agent.agent_scene import CONVERSATION, Scene


def sent(transcript: Transcript) -> list[Message]:
    return [Message.model_validate_json(row) for row in transcript.messages]


@pytest.mark.parametrize(
    ("written", "readable"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('{"a": 1}}}', '{"a": 1}'),
        ('{"a": [1, 2', '{"a": [1, 2]}'),
        ('{"a": "cut of', '{"a": "cut of"}'),
        ('{"a": 1,}', '{"a": 1}'),
        ('{"a": "tab\tline\n"}', '{"a": "tab\\tline\\n"}'),
        ('{"a": "bell\x07"}', '{"a": "bell"}'),
        ('"{\\"a\\": 1}"', '{"a": 1}'),
        ("nonsense", "{}"),
        ("[1, 2]", "{}"),
        ("", "{}"),
        ("{" * 60, "{}"),
        ('{"a": NaN}', "{}"),
    ],
)
def test_stored_arguments_become_an_object_that_every_provider_takes(written: str, readable: str) -> None:
    assert readable_arguments(written) == readable
    json.loads(readable_arguments(written))


def test_surplus_closers_are_dropped_up_to_fifty_and_never_anything_else() -> None:
    assert trimmed('{"a": 1}' + "}" * 50) == '{"a": 1}'
    assert trimmed('{"a": 1}' + "}" * 51) == '{"a": 1}' + "}" * 51
    assert trimmed('{"a": 1} and more}') == '{"a": 1} and more}'
    assert balanced('{"a": [{"b": "}') == '{"a": [{"b": "}"}]}'


@pytest.mark.parametrize(
    ("arguments", "value", "problem"),
    [
        ('{"command": "echo 1"}}', {"command": "echo 1"}, None),
        ('{"command": "a\nb"}', {"command": "a\nb"}, None),
        ('{"command": "rm -rf /tmp/x', None, "truncated"),
        ('{"command": "x"', None, "truncated"),
        ('{"command": }', None, "invalid"),
    ],
)
def test_a_live_call_is_repaired_but_never_completed(arguments: str, value: object, problem: str | None) -> None:
    parsed = parse_call(RawCall("c1", "terminal", arguments))
    assert (parsed.value, parsed.problem) == (value, problem)
    json.loads(parsed.arguments)


@given(st.text(alphabet='{}[]",:\\ab1 \n', max_size=60))
def test_no_text_breaks_the_repair(text: str) -> None:
    assert isinstance(json.loads(readable_arguments(text)), dict)
    json.loads(parse_call(RawCall("c", "n", text)).arguments)


ROWS: list[object] = [
    None,
    "text",
    {},
    {"role": "system", "parts": [{"type": "text", "text": "who"}]},
    {"role": "assistant", "parts": [{"type": "text"}, {"type": "text", "text": "kept"}, {"type": "novel", "x": 1}]},
    {"role": "assistant", "parts": [{"type": "tool_call", "id": "", "name": "bad name!", "arguments": '{"a": '}]},
    {"role": "tool", "parts": [{"type": "tool_result", "call_id": "zzz", "name": "x", "text": "orphan"}]},
    {"role": "user", "parts": [{"type": "tool_result", "call_id": "zzz", "name": "x", "text": "in the wrong row"}]},
    {"role": "assistant", "parts": [{"type": "text", "text": "bell\u0007"}]},
]


@pytest.mark.parametrize("row", ROWS)
def test_every_row_becomes_a_message(row: object) -> None:
    message = read_row(row)
    assert repair(message) == message, "repairing twice changes nothing"
    assert all(isinstance(p, ToolResultPart) == (message.role is Role.TOOL) for p in message.parts)


def test_what_can_be_saved_of_a_row_is_saved() -> None:
    assert read_row(ROWS[4]).text() == "kept"
    assert read_row(ROWS[0]).text() == UNREADABLE
    call_part = read_row(ROWS[5]).tool_calls()[0]
    assert (call_part.id, call_part.name, call_part.arguments) == ("call", "bad_name_", "{}")


def test_equal_ids_in_one_message_are_told_apart_and_keep_their_results() -> None:
    calls = tuple(ToolCallPart(id="c", name="terminal", arguments="{}") for _ in range(2))
    results = tuple(ToolResultPart(call_id="c", name="terminal", text=text) for text in ("one", "two"))
    transcript = Transcript("x")
    for message in (
        Message.user("q"),
        Message(role=Role.ASSISTANT, parts=calls),
        Message(role=Role.TOOL, parts=results),
    ):
        transcript.add(repair(message))
    last = sent(transcript)[-1]
    assert [(p.call_id, p.text) for p in last.parts if isinstance(p, ToolResultPart)] == [("c", "one"), ("c-2", "two")]


def test_a_signed_thought_is_never_touched() -> None:
    signed = ReasoningPart(text="a\x00b", signature="s")
    assert repair(Message(role=Role.ASSISTANT, parts=(signed, TextPart(text="x")))).parts[0] == signed


def test_steering_follows_results_directly_and_another_message_does_not() -> None:
    for text, rows in ((f"{STEERED} 1\nfaster", 4), ("next question", 5)):
        transcript = Transcript("x")
        transcript.add(Message.user("q"))
        transcript.add(Message(role=Role.ASSISTANT, parts=(ToolCallPart(id="c", name="terminal", arguments="{}"),)))
        transcript.add(Message(role=Role.TOOL, parts=(ToolResultPart(call_id="c", name="terminal", text="r"),)))
        transcript.add(Message.user(text))
        assert len(transcript.messages) == rows
        assert (LOST_ANSWER in sent(transcript)[-2].text()) is (rows == 5)


async def test_a_poisoned_row_costs_itself_and_the_conversation_goes_on() -> None:
    scene = Scene(ScriptedModel([call(("a", "terminal", '{"command": "echo hi"}')), say("one"), say("two")]))
    await scene.send("first", "u1")

    class Poisoned:
        """The store, with a row that no version of the contract knows."""

        def __init__(self) -> None:
            self.real = scene.store.client(1)

        async def call(self, method: Method[Req, Rep], request: Req) -> Rep:
            reply = await self.real.call(method, request)
            if method.name != "load":
                return reply
            broken = reply.model_dump()
            broken["messages"][1]["message"] = {"role": "assistant", "parts": [{"type": "hologram"}]}
            return method.reply.model_validate(broken)

    transcript = await load_transcript(Poisoned(), CONVERSATION)
    messages = sent(transcript)
    assert [m.role for m in messages] == [Role.USER, Role.ASSISTANT, Role.USER, Role.ASSISTANT]
    assert messages[1].text() == UNREADABLE and messages[-1].text() == "one"


async def test_what_the_agent_wrote_comes_back_byte_for_byte() -> None:
    rng = random.Random(7)
    for seed in range(20):
        scene = Scene(
            ScriptedModel(
                [
                    call(("c", "terminal", '{"command": "echo ü\\n", "x": 1,}'), ("c", "nope nope", "{}"), text="a\x00b"),
                    call(("", "terminal", json.dumps({"command": f"echo {rng.random()}"}))),
                    say(f"done {seed} \ud800"),
                ]
            )
        )
        await scene.send()
        before = [m.model_dump_json() for m in scene.transcript]
        loaded = await load_transcript(scene.store.client(1), CONVERSATION)
        assert [row.decode() for row in loaded.messages] == before
