"""What is cleaned up, and what must stay."""

from __future__ import annotations

from hermes_contracts.bus_permissions import Role
from hermes_contracts.conversation import Message
from hermes_contracts.installation import DATABASE_SERVICE
from hermes_contracts.store_api import (
    APPEND,
    COMMIT,
    OPEN_TURN,
    PUT_COMMAND,
    AppendRequest,
    CommandKind,
    CommitRequest,
    JournalEntry,
    OpenTurnRequest,
    PutCommandRequest,
)  # fmt: skip
from hermes_gateway.store.database import Address, Database, Scope
from hermes_gateway.store.janitor import clean_statements
from tests.integration.store.harness import Session, World, awake, eventually, new_session

DAY = 86_400


async def two_turns(world: World) -> Session:
    """A session with a settled and a running turn, both with a tool call, and a command."""
    session = new_session()
    agent = await world.agent(session.sid, await awake(world, session))
    for update_id in ("settled", "running"):
        request = OpenTurnRequest(inbound=session.inbound(update_id), ack_subject="a", stream_sequence=1)
        turn_id = (await agent.call(OPEN_TURN, request)).turn_id
        entry = JournalEntry(call_id="c", tool="terminal", state="started")
        await agent.call(APPEND, AppendRequest(turn_id=turn_id, step=0, messages=(Message.user("x"),), journal=(entry,)))
        if update_id == "settled":
            await agent.call(COMMIT, CommitRequest(turn_id=turn_id, step=1, messages=(), outcome="done", reply="y"))
    gateway = await world.service(Role.GATEWAY)
    await gateway.call(
        PUT_COMMAND,
        PutCommandRequest(sid=session.sid, owner="ada", account="build", update_id="k", kind=CommandKind.STOP),
    )
    waiting = "select count(*) from outbox where sid = %s and relayed_at is null"
    await eventually(lambda: world.rows(waiting, session.sid) == [(0,)], "all is relayed")
    return session


def counts(world: World, session: Session) -> dict[str, object]:
    tables = ("outbox", "steps", "journal", "turns", "messages", "deliveries")
    return {table: world.rows(f"select count(*) from {table} where sid = %s", session.sid)[0][0] for table in tables}


async def clean(world: World) -> None:
    address = Address("127.0.0.1", world.postgres.port, world.database, "prefer")
    conninfo = address.conninfo(DATABASE_SERVICE, (world.folder / "service-password").read_text())
    async with Database(conninfo, connections=1, name="janitor") as database:
        await database.run(Scope(task="janitor"), lambda transaction: transaction.commit(*clean_statements(DAY, 8 * DAY)))


async def test_the_young_and_the_unfinished_stay(world: World) -> None:
    session = await two_turns(world)
    before = counts(world, session)
    await clean(world)
    assert counts(world, session) == before
    assert world.rows("select result from commands where sid = %s", session.sid) == [(None,)]
    world.rows_change(
        "update turns set settled_at = now() - interval '9 days' where sid = %s and state = 'done'", session.sid
    )
    world.rows_change("update outbox set relayed_at = now() - interval '2 days' where sid = %s and final", session.sid)
    world.rows_change("update outbox set relayed_at = null, created_at = now() where sid = %s and not final", session.sid)
    world.rows_change("update commands set created_at = now() - interval '1 hour' where sid = %s", session.sid)
    await clean(world)
    assert counts(world, session) == {"outbox": 4, "steps": 1, "journal": 1, "turns": 2, "messages": 2, "deliveries": 1}
    assert world.rows("select result from commands where sid = %s", session.sid) == [("Nobody was running to do this.",)]


async def test_pictures_that_nobody_needs_go(world: World) -> None:
    session, ghost, half = await two_turns(world), new_session(), new_session()
    for sid, received in ((session.sid, 3), (ghost.sid, 3), (half.sid, 2)):
        world.rows_change("insert into media values (%s, 'm', 'image/png', 3, %s)", sid, received)
        world.rows_change("insert into media_pages values (%s, 'm', 0, 'abc')", sid)
    kept = "select sid from {} where sid = any(%s)"
    sids = [session.sid, ghost.sid, half.sid]
    await clean(world)
    assert len(world.rows(kept.format("media"), sids)) == 3
    world.rows_change("update media set created_at = now() - interval '2 days' where sid = any(%s)", sids)
    await clean(world)
    for table in ("media", "media_pages"):
        assert world.rows(kept.format(table), sids) == [(session.sid,)], table


async def test_old_logins_and_spending_go(world: World) -> None:
    world.rows_change("insert into logins values ('old', 1, ''), ('new', 1, '')")
    world.rows_change("update logins set changed_at = now() - interval '2 years' where login = 'old'")
    day = "insert into profile_spend select 'janitor', 'p', (now() at time zone 'utc')::date - n, 0, 0, 0, 0, 0, 0, 0, 0, 0"
    world.rows_change(f"{day} from unnest(array[0, 500]) n")
    await clean(world)
    assert world.rows("select login from logins where login in ('old', 'new')") == [("new",)]
    assert world.rows("select count(*) from profile_spend where namespace = 'janitor'") == [(1,)]
