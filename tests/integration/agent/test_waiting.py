"""A pod that waits for a session: says so, takes one identity and no other, and is then an agent like any other."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from hermes_agent.testing.model import say
from hermes_contracts import subjects
from hermes_contracts.bus_permissions import agent_permissions, warm_permissions
from hermes_contracts.store_api import AgentState
from hermes_contracts.warm_pool import Hello, Identity, Sealed, Waiting
from hermes_service.sealing import SealingKey, seal
from tests.integration.agent.agent_world import SID, AgentProcess, World, until

UID = "0f6b1c7e-1111-4222-8333-abcdefabcdef"


class Pool:
    """Hears hellos and hands identities over, as the operator does."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.hellos: list[Hello] = []

    async def listen(self) -> None:
        async def take(message: Any) -> None:
            self.hellos.append(Hello.model_validate_json(message.data))

        await self.world.admin.subscribe(subjects.warm_hello(UID), cb=take)

    def folder(self, *, lifetime_seconds: int | None = None) -> Path:
        folder = self.world.folder / "warm"
        folder.mkdir(exist_ok=True)
        user = self.world.keys.user("warm", warm_permissions(UID), lifetime_seconds=lifetime_seconds)
        (folder / "bus.creds").write_text(user.render())
        waiting = Waiting(pod_uid=UID, bus_url=self.world.nats.url, models_url="http://127.0.0.1:1")
        (folder / "warm.json").write_text(waiting.model_dump_json())
        return folder

    def identity(self, hello: Hello, *, epoch: int = 1) -> Identity:
        jwt = self.world.keys.user_jwt(hello.bus_key, "agent", agent_permissions(SID, epoch), lifetime_seconds=600)
        return Identity(config=self.world.config(epoch, created_at=time.time()), bus_jwt=jwt, models_token="token-warm")

    async def hand_over(self, identity: Identity, key: str) -> None:
        box = Sealed(box=seal(key, identity.model_dump_json().encode()))
        await self.world.admin.publish(subjects.warm_claim(UID), box.model_dump_json().encode())
        await self.world.admin.flush()

    async def start(self, **folder: Any) -> AgentProcess:
        agent = await self.world.start_agent(folder=self.folder(**folder))
        await until(lambda: bool(self.hellos), "the pod says hello")
        return agent


async def pool_of(world: World) -> Pool:
    pool = Pool(world)
    await pool.listen()
    return pool


async def test_a_waiting_pod_becomes_a_session_and_answers(world: World) -> None:
    world.model._script = [say("Hello to you.")]
    pool = await pool_of(world)
    agent = await pool.start()
    assert world.store.states() == [], "a pod without an identity says nothing to the store"
    hello = pool.hellos[-1]
    assert not hello.accepted

    update = await world.send("hello")
    await pool.hand_over(pool.identity(hello), hello.seal_key)
    await until(lambda: world.settled(update), "the turn is committed")

    assert pool.hellos[-1].accepted
    assert world.store.turn(update).commits[0].reply == "Hello to you."
    assert set(world.tokens) == {"token-warm"}
    assert world.denied() == []
    assert hello.bus_key not in "".join(agent.lines)
    assert "token-warm" not in "".join(agent.lines)


async def test_a_second_identity_changes_nothing(world: World) -> None:
    pool = await pool_of(world)
    agent = await pool.start()
    hello = pool.hellos[-1]
    await pool.hand_over(pool.identity(hello, epoch=1), hello.seal_key)
    await pool.hand_over(pool.identity(hello, epoch=7), hello.seal_key)
    await until(lambda: "agent.ready" in agent.events(), "the agent is ready")
    assert agent.process.returncode is None
    ready = [json.loads(line) for line in agent.lines if '"agent.ready"' in line]
    assert [line["epoch"] for line in ready] == [1]


async def test_what_is_sealed_for_somebody_else_is_not_taken(world: World) -> None:
    pool = await pool_of(world)
    agent = await pool.start()
    hello = pool.hellos[-1]

    await pool.hand_over(pool.identity(hello), SealingKey().public)
    await world.admin.publish(subjects.warm_claim(UID), b'{"box": "!"}')
    await world.admin.publish(subjects.warm_claim(UID), b"nonsense")
    await until(lambda: agent.events().count("identity.not_for_us") == 2, "it is refused")
    await until(lambda: agent.events().count("identity.unreadable") == 1, "it is refused")
    await pool.hand_over(pool.identity(hello), hello.seal_key)
    await until(lambda: AgentState.READY in world.store.states(), "the right one is taken still")


async def test_a_process_that_starts_again_is_another_candidate(world: World) -> None:
    pool = await pool_of(world)
    first = await pool.start()
    old = pool.hellos[-1]
    first.kill()
    await first.process.wait()
    pool.hellos.clear()
    second = await pool.start()
    assert pool.hellos[-1].bus_key != old.bus_key
    await pool.hand_over(pool.identity(old), old.seal_key)
    await until(lambda: "identity.not_for_us" in second.events(), "what was sealed for the first one is lost")


async def test_it_ends_at_once_when_it_is_told_to(world: World) -> None:
    pool = await pool_of(world)
    agent = await pool.start()
    agent.process.terminate()
    assert await agent.process.wait() == 0


async def test_it_ends_when_its_credential_has_run_out(world: World) -> None:
    pool = await pool_of(world)
    agent = await pool.start(lifetime_seconds=8)
    assert await agent.process.wait() == 1
    assert "agent.failed" in agent.events()


async def test_the_bus_may_be_away_while_it_waits(world: World) -> None:
    pool = await pool_of(world)
    await pool.start()
    await world.nats.stop()
    await world.nats.start()
    await until(lambda: world.admin.is_connected, "we are connected again")
    pool.hellos.clear()
    await until(lambda: bool(pool.hellos), "it says hello again")
    hello = pool.hellos[-1]
    await pool.hand_over(pool.identity(hello), hello.seal_key)
    await until(lambda: AgentState.READY in world.store.states(), "the agent is ready")
