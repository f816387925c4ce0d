"""How a store starts, says that it is well, and ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from hermes_contracts.conversation import Message
from hermes_contracts.store_api import APPEND, OPEN_TURN, AppendRequest, OpenTurnRequest
from hermes_gateway import store
from hermes_gateway.store.database import Address
from hermes_gateway.store.migrate import MigrationError, migrate
from tests.integration.store.harness import StoreProcess, World, awake, new_session, wait_until


@pytest.fixture
async def fresh(servers: World) -> AsyncIterator[World]:
    """The servers with an empty database of one test."""
    before = servers.database
    servers.new_database()
    yield servers
    await servers.close_clients()
    servers.database = before


def passwords(world: World) -> tuple[str, str]:
    return (world.folder / "owner-password").read_text().strip(), (world.folder / "service-password").read_text()


def address(world: World) -> Address:
    return Address("127.0.0.1", world.postgres.port, world.database, "prefer")


async def test_many_replicas_start_at_once(fresh: World) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(6):
            group.create_task(migrate(address(fresh), *passwords(fresh)))
    there_are = sorted(path.name for path in Path(store.__file__).parent.glob("migrations/*.sql"))
    assert [name for (name,) in fresh.rows("select name from migrations order by version")] == there_are


async def test_the_version_before_goes_on_writing(fresh: World) -> None:
    await migrate(address(fresh), *passwords(fresh))
    usage = "input_tokens, output_tokens, cached_input_tokens, reasoning_tokens, model_calls"
    fresh.rows_change(
        "insert into sessions (sid, namespace, profile, owner, key, epoch) values ('s', 'n', 'p', 'o', '{}', 1)"
    )
    fresh.rows_change(
        f"insert into steps (sid, turn_id, step, last_sequence, {usage}) values ('s', 't', 0, 1, 1, 1, 1, 1, 1)"
    )
    fresh.rows_change("insert into messages (sid, sequence, cid, turn_id, step, body) values ('s', 1, 'c', 't', 0, '{}')")
    fresh.rows_change("insert into conversations (sid, cid, prompt) values ('s', 'c', '{}')")
    fresh.rows_change("insert into tombstones (sid, epoch) select sid, epoch from sessions")
    fresh.rows_change(
        f"insert into usage (sid, turn_id, step, call_id, epoch, provider, model, outcome, milliseconds, {usage}) "
        "values ('s', 't', 0, 'c', 1, 'p', 'm', 'ok', 1, 1, 1, 1, 1, 1)"
    )
    assert fresh.rows("select cost_nano_usd, purpose from usage") == [(0, "turn")]
    assert fresh.rows("select begins_after, compactions, context_tokens, title from conversations") == [(0, 0, 0, "")]
    assert fresh.rows("select copied from messages") == [(False,)]


async def test_a_changed_migration_is_refused(fresh: World) -> None:
    await migrate(address(fresh), *passwords(fresh))
    fresh.rows_change("update migrations set sha256 = 'other'")
    with pytest.raises(MigrationError, match=r"0001_initial\.sql was changed after it was applied"):
        await migrate(address(fresh), *passwords(fresh))


async def test_the_service_role_has_little(fresh: World) -> None:
    await migrate(address(fresh), *passwords(fresh))
    query = "select rolsuper, rolbypassrls, rolcreaterole, rolcreatedb from pg_roles where rolname = 'hermes_service'"
    assert fresh.rows(query) == [(False, False, False, False)]
    service = address(fresh).conninfo("hermes_service", passwords(fresh)[1])
    with psycopg.connect(service, options="-c search_path=hermes") as connection:
        for statement in ("create table x ()", "select * from migrations", "drop table turns", "truncate turns",
                          "alter table turns no force row level security"):  # fmt: skip
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)  # type: ignore[call-overload]
            connection.rollback()


async def test_a_rotated_password_is_taken_over(fresh: World) -> None:
    owner, service = passwords(fresh)
    await migrate(address(fresh), owner, service)
    await migrate(address(fresh), owner, "another-password")
    with psycopg.connect(address(fresh).conninfo("hermes_service", "another-password")):
        pass
    await migrate(address(fresh), owner, service)


async def test_a_store_waits_for_its_database_and_says_so(fresh: World) -> None:
    store = fresh.store("waiting", HERMES_DATABASE_PORT="1")
    store.start(wait=False)
    try:
        await asyncio.to_thread(
            wait_until, lambda: "store.database.waiting" in store.log.read_text(), "it says what it waits for"
        )
        assert store.get("/readyz") == (503, "started: the store is starting\n")
        assert store.get("/livez")[0] == 200
    finally:
        assert store.terminate() == 0


@pytest.fixture
def forgetful(fresh: World) -> Iterator[World]:
    def fsync(value: str) -> None:
        with psycopg.connect(fresh.postgres.admin("postgres"), autocommit=True) as connection:
            connection.execute(f"alter system set fsync = {value}")  # type: ignore[call-overload]
            connection.execute("select pg_reload_conf()")

    fsync("off")
    yield fresh
    fsync("on")


@pytest.mark.parametrize("allowed", ["false", "true"])
async def test_a_database_that_forgets_is_not_ready_unless_allowed(forgetful: World, allowed: str) -> None:
    store = forgetful.store("forgetful", HERMES_DATABASE_ALLOW_UNSAFE=allowed)
    store.start(wait=False)
    try:
        await asyncio.to_thread(wait_until, lambda: "store.started" in store.log.read_text(), "it runs")
        status, text = store.get("/readyz")
        assert (status == 200) == (allowed == "true")
        assert ("fsync" in text) == (allowed == "false")
        assert "hermes_store_database_durable 0.0" in store.get("/metrics")[1]
        assert "store.database.unsafe" in store.log.read_text()
    finally:
        store.terminate()


async def test_a_terminated_store_answers_what_it_took(own_servers: World) -> None:
    store: StoreProcess = own_servers.store("leaving")
    await asyncio.to_thread(store.start)
    session = new_session()
    agent = await own_servers.agent(session.sid, await awake(own_servers, session))
    request = OpenTurnRequest(inbound=session.inbound("u"), ack_subject="a", stream_sequence=1)
    turn_id = (await agent.call(OPEN_TURN, request)).turn_id
    # A row lock held elsewhere keeps the write inside the store while it is told to go.
    with psycopg.connect(own_servers.postgres.admin(own_servers.database)) as holder:
        holder.execute("select from hermes.sessions where sid = %s for update", (session.sid,))
        append = AppendRequest(turn_id=turn_id, step=0, messages=(Message.user("hello"),))
        call = asyncio.ensure_future(agent.call(APPEND, append, patience_seconds=0))
        waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
        await asyncio.to_thread(wait_until, lambda: own_servers.rows(waiting) == [(1,)], "the write waits")
        assert store.process is not None
        store.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(wait_until, lambda: "store.stopping" in store.log.read_text(), "it leaves")
    assert (await call).sequence == 1
    assert await asyncio.to_thread(store.process.wait, 20) == 0
    await own_servers.close_clients()
