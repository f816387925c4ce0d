"""The loop and its compaction over the real store: what is loaded, what a person reads, what is paid for."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from hermes_agent.compression.summary import MARK
from hermes_agent.loop.load import load_transcript
from hermes_agent.loop.outcome import EndReason
from hermes_agent.stop import StopSignal
from hermes_contracts.bus_permissions import Role
from hermes_contracts.store_api import (
    FINISH_COMMAND,
    PUT_COMMAND,
    TRANSCRIPT,
    CommandKind,
    FinishCommandRequest,
    PutCommandRequest,
    TranscriptRequest,
)
from hermes_service.rpc import StoreClient
from tests.integration.store.harness import Session, StoreProcess, World, awake, new_session, running_servers
from tests.unit.agent.agent_scene import Scene
from tests.unit.agent.compression_scene import CountingModel, compacting, words
from tests.unit.agent.test_compression_turns import busy, chatty


@dataclass
class RealStore:
    """Stands where scenes have their store."""

    agent: StoreClient

    def client(self, epoch: int) -> StoreClient:
        del epoch
        return self.agent


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[World, StoreProcess]]:
    with running_servers() as world:
        world.new_database()
        store = world.store()
        store.start()
        yield world, store
        store.kill()


@pytest.fixture
async def story(servers: tuple[World, StoreProcess]):
    world, _ = servers
    session = new_session()
    agent = await world.agent(session.sid, await awake(world, session))
    yield world, session, agent
    await world.close_clients()


def scene_of(agent: StoreClient, model: CountingModel) -> Scene:
    return Scene(model, RealStore(agent), compaction=compacting())  # type: ignore[arg-type]


async def send(scene: Scene, session: Session, text: str, update: str) -> EndReason:
    facts = session.inbound(update, text)
    outcome = await scene.send(
        text, update, sid=facts.sid, conversation=facts.conversation, channel=facts.channel, account=facts.account,
        owner=facts.owner, received_at=facts.received_at,
    )  # fmt: skip
    return outcome.reason


async def read(world: World, session: Session) -> list[str]:
    gateway = await world.service(Role.GATEWAY)
    texts: list[str] = []
    after, more = 0, True
    while more:
        asked = TranscriptRequest(sid=session.sid, owner="ada", conversation=session.conversation, after=after)
        page = await gateway.call(TRANSCRIPT, asked)
        texts += [stored.message.text() for stored in page.messages]
        after, more = page.messages[-1].sequence, page.more
    return texts


async def test_a_long_conversation_through_restarts_loads_short_and_reads_whole(story) -> None:
    world, session, agent = story
    model = CountingModel(chatty(), window=8_000)
    scene = scene_of(agent, model)
    for n in range(40):
        if n % 9 == 8:
            scene.restart()
        assert await send(scene, session, f"question {n} {words(random.Random(n), 40)}", f"u{n}") is EndReason.STOP
    transcript = await load_transcript(agent, session.conversation)
    lineage = world.rows("select tokens_before, tokens_after from compactions where sid = %s order by number", session.sid)
    assert transcript.compactions == len(lineage) >= 3 and all(after < before for before, after in lineage)
    assert max(model.sizes) <= model.window and len(model.summaries) == len(lineage)
    assert transcript.context_tokens > 0 and transcript.context_rows == len(transcript.messages)
    texts = await read(world, session)
    assert [text.split(" alpha")[0].split()[1] for text in texts if text.startswith("question ")] == list(
        map(str, range(40))
    )
    assert sum(text.startswith(MARK) for text in texts) == len(lineage)


async def test_a_store_killed_during_a_long_turn_costs_no_step_and_no_call(story, servers) -> None:
    world, session, agent = story
    _, store = servers
    model = CountingModel(busy(30), window=8_000)
    scene = scene_of(agent, model)
    scene.limit(max_iterations=60)
    turn = asyncio.ensure_future(send(scene, session, "Do thirty steps.", "u1"))
    try:
        async with asyncio.timeout(60):
            while not model.summaries and not turn.done():
                await asyncio.sleep(0.001)
        store.kill()
        store.start()
        assert await turn is EndReason.STOP
    finally:
        turn.cancel()
    assert len(scene.sandbox.ran) == 30 == len(set(scene.sandbox.ran))
    steps = world.rows("select step from steps where sid = %s order by step", session.sid)
    assert [step for (step,) in steps] == list(range(len(steps)))
    transcript = await load_transcript(agent, session.conversation)
    assert transcript.compactions >= 2 and not transcript.open_calls


async def test_compress_between_turns_is_a_write_of_the_command(story) -> None:
    world, session, agent = story
    model = CountingModel(chatty(), window=200_000)
    scene = scene_of(agent, model)
    for n in range(15):
        await send(scene, session, words(random.Random(n), 200), f"u{n}")
    gateway = await world.service(Role.GATEWAY)
    put = PutCommandRequest(
        sid=session.sid, owner="ada", account="build", update_id=f"c-{secrets.token_hex(4)}", kind=CommandKind.COMPRESS,
        arguments={"conversation": session.conversation, "focus": "names"},
    )  # fmt: skip
    command = (await gateway.call(PUT_COMMAND, put)).command_id
    assert scene.runner is not None
    said = await scene.runner.compact(session.conversation, "names", command, StopSignal())
    ((before, after),) = world.rows("select tokens_before, tokens_after from compactions where sid = %s", session.sid)
    assert said == f"Compacted this conversation from {before:,} to {after:,} tokens."
    await agent.call(FINISH_COMMAND, FinishCommandRequest(command_id=command, result=said))
    assert await send(scene, session, "and now?", "next") is EndReason.STOP
    scene.restart()
    assert await send(scene, session, "and after a restart?", "later") is EndReason.STOP
    assert model.requests[-1].messages[-3].text() == "and now?"
