"""The prompt never moves: whatever happens between two requests, the second begins with the whole of the first.

Conversations are random: texts, tools, rubbish, stops, crashes in mid-turn, restarts, exchanges taken back, a workspace and
a calendar that change under way. Only a compaction may begin the bytes anew, and then they hold again until the next one.
Taking an exchange back cuts them off where it began: what came before it stays, and what is said next comes after that.
"""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass, field
from datetime import timedelta

from hypothesis import example, given, settings, strategies as st

from hermes_agent.loop.load import load_transcript
from hermes_agent.loop.state import Turn
from hermes_agent.loop.transcript import Transcript
from hermes_agent.stop import StopReason, StopSignal
from hermes_agent.store_port import Rep, Req
from hermes_agent.testing.model import Reply, ScriptedModel, call, say
from hermes_agent.testing.store import FakeStore, FakeStoreClient
from hermes_contracts.conversation import Message, Role
from hermes_contracts.errors import HermesError
from hermes_contracts.model_api import ModelRequest
from hermes_contracts.store_api import COMPACT, CompactRequest, Method
from tests.unit.agent.agent_scene import CONVERSATION, Scene

EVENTS = ("message", "message", "stop", "crash", "sender", "undo")
MAX_SCAFFOLD = 12


class Crash(BaseException):
    """The process is gone."""


class FarStore(FakeStore):
    """Answers after a while, as a store on a network does."""

    def client(self, epoch: int) -> FakeStoreClient:
        return FarClient(self, epoch)


class FarClient(FakeStoreClient):
    """Waits its turn a few times."""

    async def call(self, method: Method[Req, Rep], request: Req) -> Rep:
        for _ in range(6):
            await asyncio.sleep(0)
        return await super().call(method, request)


@dataclass(frozen=True)
class Asked:
    """A request: compactions before it, its turn, its head (system and tools), the transcript's rows, its body.

    Judged after the conversation: what is raised while a model is asked ends a turn in words.
    """

    compactions: int
    turn_id: str
    head: bytes
    rows: list[bytes]
    body: bytes
    frozen: bytes
    """The head that the store's prompt makes."""
    held: list[bytes]
    """The rows that the store's messages make."""

    @property
    def stored(self) -> bytes:
        return self.head + b',"messages":[' + b",".join(self.rows)


@dataclass(frozen=True)
class Undone:
    """A turn was taken back."""

    turn_id: str


@dataclass
class World:
    """A scene in which things happen, and what was asked of the model."""

    seed: int
    compact_at: int
    scene: Scene = field(init=False)
    asked: list[Asked | Undone] = field(default_factory=list)
    """What the model was asked, and what was taken back in between."""
    live: Turn = field(init=False)
    """The turn that runs."""

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.scene = Scene(
            ScriptedModel(self.reply),
            FarStore(),
            reads_workspace=True,
            compaction=lambda scene: Every(scene, self.compact_at, self),
        )
        self.scene.sandbox.files = {
            "AGENTS.md": b"Use tabs.",
            "src/AGENTS.md": b"Use \xc3\xbcml\xc3\xa4uts.",
            "src/x": b"1\n",
        }
        self.scene.limit(max_iterations=6)
        self.scene.store.page = 3
        self.scene.model.hook = self.seen

    def reply(self, request: ModelRequest) -> Reply:
        del request
        kind = self.rng.random()
        if kind < 0.5:
            name = self.rng.choice(["terminal", "read_file", "write_file", "nope"])
            path = self.rng.choice(["src/x", "src/new", "x", "/etc/passwd"])
            arguments = json.dumps({"command": "echo ü", "path": path, "content": "c"}, ensure_ascii=False)
            calls = [(f"c{self.rng.randrange(3)}", name, self.rng.choice([arguments, arguments, '{"path": "x']))]
            return call(*calls * self.rng.randrange(1, 3), text=self.rng.choice(["", "Let me see.\n", 'q " \\ \u2028']))
        if kind < 0.65:
            return say("")
        if kind < 0.75:
            return say("<think>hm")
        return say(self.rng.choice(["Done.", "Fertig, schön.", "   ok "]))

    def seen(self, when: str) -> None:
        if when != "before":
            return
        store = self.scene.store
        rows = list(self.live.transcript.messages)
        body = self.scene.model.bodies[-1]
        head = body[: body.index(b',"messages":[')]
        frozen = Transcript(CONVERSATION)
        frozen.set_prompt(store.prompts[CONVERSATION])
        held = Transcript(CONVERSATION)
        for kept in store.messages[CONVERSATION]:
            if not kept.undone and kept.sequence > store.conversation(CONVERSATION).start:
                held.add(kept.message)
        compactions = len(store.conversation(CONVERSATION).compactions)
        prompt = b'{"system":' + frozen.system + b',"tools":' + frozen.tools
        self.asked.append(Asked(compactions, self.live.turn_id, head, rows, body, prompt, held.messages))

    async def happen(self, number: int, event: str) -> None:
        update = f"u{number}"
        if event == "undo":
            self.undo()
        elif event == "stop":
            stop = StopSignal()
            left = [self.rng.randrange(1, 10)]

            def count(_name: str, _when: str) -> None:
                left[0] -= 1
                if left[0] == 0:
                    stop.set(StopReason.USER)

            self.scene.store.hook = count
            await self.scene.send(f"message {number}", update, stop)
            self.scene.store.hook = lambda _name, _when: None
        elif event == "crash":
            await self.crash_and_resume(number, update)
        else:
            sender = "Bob" if event == "sender" else ""
            await self.scene.send(f"message {number} \x00 é", update, sender=sender)

    def undo(self) -> None:
        store = self.scene.store
        rows = store.messages.get(CONVERSATION, [])
        if not store.undo(CONVERSATION):
            return
        gone = [new for new, old in zip(store.messages[CONVERSATION], rows, strict=True) if new.undone and not old.undone]
        live = [
            m for m in store.messages[CONVERSATION] if not m.undone and m.sequence > store.conversations[CONVERSATION].start
        ]
        assert all(m.sequence < gone[0].sequence for m in live), "the end is taken back, and nothing else"
        self.asked.append(Undone(gone[0].turn_id))

    async def crash_and_resume(self, number: int, update: str) -> None:
        left = [self.rng.randrange(1, 12)]

        def fail(_name: str, _when: str) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise Crash

        self.scene.store.hook = fail
        try:
            await self.scene.send(f"message {number}", update)
        except Crash:
            self.scene.restart(new_epoch=True)
        self.scene.store.hook = lambda _name, _when: None
        await self.scene.send(f"message {number}", update)

    def change_the_world(self) -> None:
        self.scene.today += timedelta(days=1)
        self.scene.sandbox.files |= {"AGENTS.md": f"Rule {self.rng.random()}".encode(), "new.txt": b""}
        if self.rng.random() < 0.5:
            self.scene.restart(new_epoch=self.rng.random() < 0.5)


class Every:
    """Compacts whenever the transcript has so many rows: a summary, and the newest round."""

    def __init__(self, scene: Scene, rows: int, world: World | None = None) -> None:
        self._world = world
        self._store = scene.store.client(scene.epoch)
        self._prompts = scene.prompts()
        self._rows = rows

    async def before_call(self, turn: Turn) -> None:
        transcript = turn.transcript
        if self._world is not None:
            self._world.live = turn
        if len(transcript.messages) < self._rows:
            return
        tail = [Message.model_validate_json(row) for row in transcript.messages[-2:]]
        kept = tail if tail[0].role is Role.ASSISTANT and tail[1].role is Role.TOOL else []
        prompt = await self._prompts.rebuild(json.loads(transcript.system))
        messages = (Message.user("what was said before"), *kept)
        reply = await self._store.call(
            COMPACT,
            CompactRequest(
                turn_id=turn.turn_id, step=turn.step, conversation=transcript.conversation,
                expected=transcript.compactions, prompt=prompt, messages=messages, summary_index=0, usage=turn.usage,
            ),
        )  # fmt: skip
        turn.written()
        transcript.begin_anew(prompt, messages, sequence=reply.sequence, compactions=reply.compactions)

    async def on_overflow(self, turn: Turn, error: HermesError) -> bool:
        return False

    def measured(self, turn: Turn, context_tokens: int, context_window: int) -> None:
        return None


def check(asked: list[Asked | Undone]) -> None:
    """Compare each request with the one before it that is still part of the conversation."""
    before: list[Asked] = []
    for one in asked:
        if isinstance(one, Undone):
            before = [request for request in before if request.turn_id != one.turn_id]
            continue
        assert one.head == one.frozen, "what is frozen is what is sent"
        assert one.rows == one.held, "what the store holds is what is sent, and nothing that was taken back"
        assert one.body.startswith(one.stored), "a request is the transcript, byte for byte"
        assert one.body[len(one.stored) :].count(b'"role":') <= MAX_SCAFFOLD
        if before and before[-1].compactions == one.compactions:
            assert one.head == before[-1].head, "system and tools stay"
            assert one.stored.startswith(before[-1].stored), "what was sent stays, and more comes after it"
        before.append(one)


async def converse(seed: int, compact_at: int, events: list[str]) -> World:
    world = World(seed, compact_at)
    for number, event in enumerate(events):
        await world.happen(number, event)
        world.change_the_world()
    check(world.asked)
    return world


def test_every_request_begins_with_the_one_before_unless_the_conversation_was_compacted() -> None:
    compacted, asked, undone = [0], [0], [0]

    @settings(max_examples=40, deadline=None)
    @given(
        st.integers(0, 100_000), st.sampled_from([8, 14, 10_000]), st.lists(st.sampled_from(EVENTS), min_size=2, max_size=6)
    )
    @example(7, 8, ["message"] * 6)
    @example(7, 10_000, ["message", "message", "undo", "message", "undo", "undo", "message"])
    @example(11, 14, ["message", "undo", "crash", "undo", "message", "stop", "undo", "message"])
    def holds(seed: int, compact_at: int, events: list[str]) -> None:
        world = asyncio.run(converse(seed, compact_at, events))
        compacted[0] += len(world.scene.store.conversation(CONVERSATION).compactions)
        asked[0] += len(world.asked)
        undone[0] += sum(isinstance(one, Undone) for one in world.asked)

    holds()
    assert compacted[0] > 10 and asked[0] > 200 and undone[0] > 3, "the property is tested on something"


async def test_the_prompt_is_the_first_days_until_a_compaction_makes_it_todays() -> None:
    scene = Scene(ScriptedModel([say("a"), say("b"), say("c")]), reads_workspace=True)
    scene.sandbox.files = {"AGENTS.md": b"Old rules."}
    await scene.send("one", "u1", instructions="Be terse.")
    scene.today += timedelta(days=9)
    scene.sandbox.files = {"AGENTS.md": b"New rules."}
    scene.restart(new_epoch=True)
    await scene.send("two", "u2", instructions="Be verbose.")
    first, second = (request.system for request in scene.model.requests)
    assert first == second and "Old rules." in first and "Be terse." in first
    scene.compaction = lambda scene: Every(scene, 3)
    scene.restart()
    await scene.send("three", "u3")
    third = scene.model.requests[-1].system
    assert "New rules." in third and "2026-12-09" in third and "Be terse." in third and "Be verbose." not in third


async def test_a_first_turn_that_is_stopped_while_the_workspace_hangs_ends_at_once_and_spoils_nothing() -> None:
    scene = Scene(ScriptedModel([say("hello")]), reads_workspace=True)
    hanging = asyncio.Event()
    plain = scene.sandbox.list_directory

    async def hang(path: str, *, limit: int) -> tuple[list[str], int]:
        hanging.set()
        await asyncio.Event().wait()
        return await plain(path, limit=limit)

    scene.sandbox.list_directory = hang  # type: ignore[method-assign]
    stop = StopSignal()
    async with asyncio.timeout(1.5), asyncio.TaskGroup() as group:
        turn = group.create_task(scene.send("one", "u1", stop))
        await hanging.wait()
        stop.set(StopReason.USER)
    assert turn.result().reply == "Stopped." and scene.model.requests == []
    scene.sandbox.list_directory = plain  # type: ignore[method-assign]
    scene.sandbox.files = {"AGENTS.md": b"Use tabs."}
    assert (await scene.send("two", "u2")).reply == "hello"
    assert "Use tabs." in scene.model.requests[0].system


async def test_directory_hints_are_stored_with_the_result_and_come_once_across_restarts() -> None:
    read = ("c1", "read_file", '{"path": "src/x"}')
    scene = Scene(ScriptedModel([call(read), say("a"), call(read), say("b")]), reads_workspace=True)
    scene.sandbox.files = {"src/AGENTS.md": b"Use tabs.", "src/x": b"1\n"}
    await scene.send("one", "u1")
    scene.restart(new_epoch=True)
    await scene.send("two", "u2")
    first, second = scene.results()
    assert "Use tabs." in first.text and "Use tabs." not in second.text
    assert "Use tabs." not in scene.model.requests[-1].system
    loaded = await load_transcript(scene.store.client(scene.epoch), CONVERSATION)
    assert sum(b"Use tabs." in row for row in loaded.messages) == 1
