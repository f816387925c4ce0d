"""Bytes that a provider may cache: each request begins with the whole of the one before."""

from __future__ import annotations

import asyncio
import itertools
import random

from hypothesis import given, settings, strategies as st

from hermes_agent.loop.transcript import Transcript, TranscriptCache
from hermes_agent.model.base import ModelCall
from hermes_agent.testing.model import Reply, ScriptedModel, call, say
from hermes_contracts.conversation import Message, Part, Role, TextPart, ToolCallPart, ToolResultPart
from hermes_contracts.model_api import ModelRequest
from tests.unit.agent.agent_scene import Scene

MARK = b'],"version":'


def prefix(body: bytes) -> bytes:
    """Return a request's bytes up to the end of its last message."""
    return body[: body.rindex(MARK)]


def chaotic(seed: int) -> ScriptedModel:
    rng = random.Random(seed)

    def reply(request: ModelRequest) -> Reply:
        del request
        kind = rng.random()
        if kind < 0.5:
            name = rng.choice(["terminal", "read_file", "nope"])
            calls = [(f"c{rng.randrange(3)}", name, '{"command": "echo ü", "path": "x"}')]
            return call(*calls * rng.randrange(1, 3), text=rng.choice(["", "Let me see.\n", 'quotes " and \\']))
        return say(rng.choice(["Done.", "Fertig, schön.", "   ok "]))

    return ScriptedModel(reply)


def test_each_request_begins_with_the_whole_of_the_one_before_across_tools_turns_and_restarts() -> None:
    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 10_000), st.lists(st.booleans(), min_size=2, max_size=5))
    def example(seed: int, restarts: list[bool]) -> None:
        asyncio.run(converse(seed, restarts))

    example()


async def converse(seed: int, restarts: list[bool]) -> None:
    scene = Scene(chaotic(seed))
    scene.limit(max_iterations=6)
    scene.store.page = 2
    for number, restart in enumerate(restarts):
        if restart:
            scene.restart(new_epoch=True)
        await scene.send(f"message {number}", f"u{number}")
    bodies = [body for body in scene.model.bodies if b"Do not call tools" not in body]
    for before, after in itertools.pairwise(bodies):
        assert after.startswith(prefix(before))


PARTS: dict[Role, st.SearchStrategy[tuple[Part, ...]]] = {
    Role.USER: st.just((TextPart(text="q"),)),
    Role.ASSISTANT: st.lists(
        st.one_of(
            st.just(TextPart(text="a")),
            st.integers(0, 9).map(lambda n: ToolCallPart(id=f"c{n}", name="terminal", arguments="{}")),
        ),
        min_size=1,
        max_size=3,
        unique_by=lambda part: part.id if isinstance(part, ToolCallPart) else "",
    ).map(tuple),
    Role.TOOL: st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True).map(
        lambda ids: tuple(ToolResultPart(call_id=f"c{n}", name="terminal", text="r") for n in ids)
    ),
}
MESSAGES = st.sampled_from(list(Role)).flatmap(lambda role: PARTS[role].map(lambda parts: Message(role=role, parts=parts)))


@given(st.lists(MESSAGES, max_size=12))
def test_whatever_the_store_holds_what_is_sent_is_legal(messages: list[Message]) -> None:
    transcript = Transcript("c")
    for message in [*messages, Message.user("and now?")]:
        before = list(transcript.messages)
        transcript.add(message)
        assert transcript.messages[: len(before)] == before, "repairs never change what was sent"
    sent = [Message.model_validate_json(data) for data in transcript.messages]
    for earlier, later in zip([None, *sent], sent, strict=False):
        calls = [call.id for call in earlier.tool_calls()] if earlier else []
        if calls:
            assert later.role is Role.TOOL
            assert [p.call_id for p in later.parts if isinstance(p, ToolResultPart)] == calls
        else:
            assert later.role is not Role.TOOL
        assert not earlier or later.role is not earlier.role
        assert earlier or later.role is Role.USER
    assert sent[-1].role is Role.USER


def test_a_request_is_what_the_contract_says() -> None:
    message = Message.user("hi").model_dump_json().encode()
    body = ModelCall("t1", 3, b'"sys"', b"[]", [message, message], 100).body()
    request = ModelRequest.model_validate_json(body)
    assert (request.turn_id, request.step, request.system, request.max_output_tokens) == ("t1", 3, "sys", 100)
    assert len(request.messages) == 2 and b'"version": 1' in body


def test_the_cache_forgets_the_oldest_and_never_the_last() -> None:
    cache = TranscriptCache(max_bytes=100)
    for name in ("a", "b"):
        transcript = Transcript(name)
        transcript.add(Message.user("x" * 200))
        cache.keep(transcript)
    assert cache.take("a", undone=0) is None
    assert cache.take("b", undone=0) is not None
    assert cache.take("b", undone=0) is None
