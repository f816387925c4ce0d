"""Messages that nobody will answer, sessions that leave nothing behind, dead letters, and what it all has cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Role
from hermes_contracts.conversation import Usage
from hermes_contracts.names import FINALIZER_PURGE, session_object_name
from hermes_contracts.store_api import AgentState, ProfileSpend
from hermes_operator.cluster.resources import PODS, PROFILES, SESSIONS
from hermes_operator.mail import Mail
from hermes_service.signing import Verifier, public_key
from tests.integration.operator.admin import ROOT, until
from tests.integration.operator.harness import Installation
from tests.integration.operator.stories import (
    FakeAgent,
    change,
    condition,
    events_about,
    make_session,
    reaches,
    route_for,
    session,
    write,
)

pytestmark = pytest.mark.timeout(300)


async def mail(installation: Installation) -> Mail:
    client = await installation.client(Role.OPERATOR)
    return Mail(client, Verifier(public_key(await installation.signing_seed())))


async def test_a_message_for_a_profile_that_never_was_is_given_up(installation: Installation) -> None:
    await installation.up(HERMES_BURY_SECONDS="2")
    gateway, box = await installation.client(Role.GATEWAY), await mail(installation)
    route = await route_for(installation, "lost", profile="ghost")
    sent = await write(installation, gateway, route, "hello?")
    await until(lambda: installation.store.buried, "the message is given up", 60)
    [request] = installation.store.buried
    assert (request.inbound, request.reason) == (sent, "profile_gone")
    assert installation.store.raised == [(route.sid, 1)], "the store has a row to tell the person from"

    async def nothing_waits() -> bool:
        return await box.oldest(route.sid) is None

    await until(nothing_waits, "the message is gone")
    assert await installation.admin.list(SESSIONS, installation.namespace) == []


async def test_a_message_waits_for_a_suspended_session_but_not_for_ever(installation: Installation) -> None:
    await installation.up(HERMES_BURY_SUSPENDED_SECONDS="4")
    gateway = await installation.client(Role.GATEWAY)
    sid = await make_session(installation, "shell", suspend=True)
    await reaches(installation, "shell", "Suspended")
    route = (await route_for(installation, "x")).model_copy(update={"sid": sid})
    await write(installation, gateway, route, "are you there")
    await until(lambda: installation.store.buried, "the message is given up", 60)
    assert [request.reason for request in installation.store.buried] == ["suspended"]
    assert (await session(installation, "shell"))["status"]["state"] == "Suspended"


async def test_what_is_to_leave_nothing_is_purged_before_its_object_goes(installation: Installation) -> None:
    await installation.up()
    gateway, box = await installation.client(Role.GATEWAY), await mail(installation)
    sid = await make_session(installation, "shell", deletionPolicy="Purge")
    agent = await FakeAgent(installation, "shell", 1).start()
    await agent.report(AgentState.READY)
    await reaches(installation, "shell", "Ready")
    assert (await session(installation, "shell"))["metadata"]["finalizers"] == [FINALIZER_PURGE]
    route = (await route_for(installation, "x")).model_copy(update={"sid": sid})
    await write(installation, gateway, route, "never read")

    await installation.admin.delete(SESSIONS, installation.namespace, "shell")

    async def gone() -> bool:
        return await installation.admin.get(SESSIONS, installation.namespace, "shell") is None

    await until(gone, "the object goes", 120)
    assert installation.store.purged == [sid]
    assert await installation.admin.list(PODS, installation.namespace, labels=f"hermes.run/sid={sid}") == []
    assert await box.oldest(sid) is None


async def test_a_deletion_that_is_faster_than_the_finalizer_leaves_nothing_either(installation: Installation) -> None:
    await installation.up()
    for number in range(5):
        await make_session(installation, f"quick-{number}", suspend=True)
        await reaches(installation, f"quick-{number}", "Suspended")
    wanted = []
    for number in range(5):
        name = f"quick-{number}"
        wanted.append((await session(installation, name))["status"]["id"])
        await change(installation, name, deletionPolicy="Purge")
        await installation.admin.delete(SESSIONS, installation.namespace, name)

    async def all_purged() -> bool:
        return set(installation.store.purged) == set(wanted)

    await until(all_purged, "everything is purged", 60)
    assert len(installation.store.purged) == len(wanted), "each once"


async def test_what_a_deleted_namespace_left_is_purged(installation: Installation) -> None:
    sid = "s" + "b" * 25
    installation.store.namespaces |= {"hermes-test-never-was": (sid,), installation.namespace: ("s" + "c" * 25,)}
    await installation.up(HERMES_GONE_CHECK_SECONDS="1")

    async def purged() -> bool:
        return installation.store.purged == [sid]

    await until(purged, "its session is purged", 60)
    assert installation.store.gone[0] == ("hermes-test-never-was",)


async def test_a_change_of_mind_keeps_the_conversation(installation: Installation) -> None:
    await installation.up()
    await make_session(installation, "shell", suspend=True, deletionPolicy="Purge")

    async def finalizers() -> list[str]:
        return list((await session(installation, "shell"))["metadata"].get("finalizers", []))

    async def held() -> bool:
        return await finalizers() == [FINALIZER_PURGE]

    async def free() -> bool:
        return await finalizers() == []

    await until(held, "the object is held")
    await change(installation, "shell", deletionPolicy="Keep")
    await until(free, "the object is free")
    await installation.admin.delete(SESSIONS, installation.namespace, "shell")

    async def gone() -> bool:
        return await installation.admin.get(SESSIONS, installation.namespace, "shell") is None

    await until(gone, "the object goes")
    assert installation.store.purged == []


def replay(installation: Installation, *arguments: str) -> str:
    """Run the command as an administrator does in the operator's pod."""
    environment = installation.environment("replay")
    done = subprocess.run(
        [sys.executable, "-m", "hermes_operator", "replay", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_a_dead_letter_shows_and_can_be_sent_again(installation: Installation) -> None:
    await installation.up()
    gateway, box = await installation.client(Role.GATEWAY), await mail(installation)
    route = await route_for(installation, "dead")
    name = session_object_name("default", route.key)
    sent = await write(installation, gateway, route, "hello")
    agent = await FakeAgent(installation, name, 1).start()
    await agent.report(AgentState.READY)
    await agent.pull()
    letter = {"version": 1, "reason": "too_many_attempts", "inbound": sent.model_dump(mode="json")}
    store = await installation.client(Role.STORE)
    await store.jetstream().publish(subjects.dead(route.sid), json.dumps(letter).encode())

    async def shows() -> bool:
        return (await condition(installation, name, "DeadLetter")).get("status") == "True"

    await until(shows, "the condition shows", 60)
    notes = await until(lambda: events_about(installation, "MessagesGivenUp"), "an Event says so")
    assert "1 messages were given up" in notes[0]
    assert "too_many_attempts" in replay(installation, f"{installation.namespace}/{name}")
    assert "sent again" in replay(installation, f"{installation.namespace}/{name}", "--all")
    again = json.loads(await agent.pull())
    assert again["text"] == "hello"
    assert again["update_id"] != sent.update_id, "the old id is a turn that is dead"
    assert await box.dead_letters(route.sid) == []

    async def clean() -> bool:
        return not await condition(installation, name, "DeadLetter")

    await until(clean, "the condition goes", 60)


async def test_what_was_spent_shows_on_the_session_and_on_its_profile(installation: Installation) -> None:
    day, month = Usage(cost_nano_usd=1_500_000_000), Usage(cost_nano_usd=20_250_000_000)
    installation.store.spends["default"] = ProfileSpend(profile="default", day=day, month=month)
    await installation.up()
    sid = await make_session(installation, "shell")
    agent = await FakeAgent(installation, "shell", 1).start()
    installation.store.change(sid, usage=Usage(cost_nano_usd=12_345_678))
    await agent.report(AgentState.READY)
    body = await reaches(installation, "shell", "Ready")
    assert body["status"]["costUsd"] == "0.012345"

    async def spent() -> bool:
        body = await installation.admin.get(PROFILES, installation.namespace, "default")
        status = (body or {}).get("status", {})
        return (status.get("spentTodayUsd"), status.get("spentMonthUsd")) == ("1.50", "20.25")

    await until(spent, "the Profile says what was spent", 90)
