"""Row-level security: whatever SQL a transaction runs, it stays inside the session it named."""

from __future__ import annotations

import pytest
from psycopg import AsyncConnection, errors
from psycopg.rows import dict_row

from hermes_contracts.bus_permissions import Role
from hermes_contracts.conversation import Message, Usage
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.installation import DATABASE_SERVICE
from hermes_contracts.names import media_id
from hermes_contracts.store_api import (
    APPEND,
    ASK_APPROVAL,
    COMMIT,
    COMPACT,
    CONVERSATION,
    FREEZE_PROMPT,
    GET_SESSION,
    LOAD,
    OFFER_FILE,
    OPEN_TURN,
    OPEN_WORKSPACE,
    PURGE,
    PUT_COMMAND,
    PUT_MEDIA,
    PUT_PIECE,
    RAISE_EPOCH,
    RECORD_USAGE,
    AppendRequest,
    AskApprovalRequest,
    CommandKind,
    CommitRequest,
    CompactRequest,
    ConversationRequest,
    Empty,
    FreezePromptRequest,
    FrozenPrompt,
    JournalEntry,
    LoadRequest,
    OfferFileRequest,
    OpenTurnRequest,
    OwnedSessionRequest,
    PutCommandRequest,
    PutMediaRequest,
    PutPieceRequest,
    RaiseEpochRequest,
    RecordUsageRequest,
    SidRequest,
)  # fmt: skip
from hermes_gateway.store.database import _OPTIONS, Address, Scope, Transaction
from tests.integration.store.harness import Session, World, awake, eventually, new_session


async def full_session(world: World) -> Session:
    """A session with a row in every table."""
    session = new_session()
    agent = await world.agent(session.sid, await awake(world, session))
    request = OpenTurnRequest(inbound=session.inbound("u"), ack_subject="ack", stream_sequence=1)
    turn_id = (await agent.call(OPEN_TURN, request)).turn_id
    prompt = FrozenPrompt(system="You are Hermes.", tools=())
    await agent.call(FREEZE_PROMPT, FreezePromptRequest(conversation=session.conversation, prompt=prompt))
    entry = JournalEntry(call_id="c", tool="terminal", state="started")
    await agent.call(APPEND, AppendRequest(turn_id=turn_id, step=0, messages=(Message.user("secret"),), journal=(entry,)))
    compact = CompactRequest(
        turn_id=turn_id, step=1, conversation=session.conversation, expected=0, prompt=prompt,
        messages=(Message.user("secrets"),), summary_index=0,
    )  # fmt: skip
    await agent.call(COMPACT, compact)
    question = AskApprovalRequest(
        turn_id=turn_id, call_id="c", kind="call", tool="terminal", call_hash="0" * 64, question="?", timeout_seconds=60
    )
    await agent.call(ASK_APPROVAL, question)
    picture = PutMediaRequest(
        sid=session.sid, media_id=media_id(b"abc"), media_type="image/png", total=3, offset=0, data="YWJj"
    )
    await agent.call(PUT_MEDIA, picture)
    await agent.call(OPEN_WORKSPACE, Empty())
    await agent.call(PUT_PIECE, PutPieceRequest(number=1, digest="0" * 64, data="YWJj"))
    file = OfferFileRequest(turn_id=turn_id, media_id=picture.media_id, name="a.png", media_type="image/png")
    await agent.call(OFFER_FILE, file)
    await agent.call(COMMIT, CommitRequest(turn_id=turn_id, step=2, messages=(), outcome="done", reply="answer"))
    gateway = await world.service(Role.GATEWAY)
    await gateway.call(
        PUT_COMMAND,
        PutCommandRequest(sid=session.sid, owner="ada", account="build", update_id="k", kind=CommandKind.STOP),
    )
    chosen = ConversationRequest(sid=session.sid, owner="ada", conversation=session.conversation, model="secret")
    await gateway.call(CONVERSATION, chosen)
    models = await world.service(Role.MODELS)
    await models.call(
        RECORD_USAGE,
        RecordUsageRequest(
            sid=session.sid, epoch=1, turn_id=turn_id, step=0, call_id="1", provider="scripted", model="m",
            usage=Usage(model_calls=1, cost_nano_usd=5),
            outcome="ok", milliseconds=3.0,
        ),
    )  # fmt: skip
    return session


OTHER_TABLES = (
    "approval_grants", "gone_namespaces", "homes", "link_codes", "link_failures", "logins", "paired_people", "pairing_locks",
    "pairing_requests", "people_audit", "person_links", "profile_spend",
)  # fmt: skip
"""Walled by something else than a session."""


def tenant_tables(world: World) -> list[str]:
    query = (
        "select c.relname, c.relrowsecurity and c.relforcerowsecurity "
        "from pg_class c join pg_namespace n on n.oid = relnamespace "
        "where n.nspname = 'hermes' and c.relkind = 'r' and c.relname <> 'migrations' order by 1"
    )
    found = world.rows(query)
    assert all(walled for _, walled in found), found
    return [str(name) for name, _ in found if name not in OTHER_TABLES]


async def service_connection(world: World) -> AsyncConnection:
    address = Address("127.0.0.1", world.postgres.port, world.database, "prefer")
    password = (world.folder / "service-password").read_text()
    return await AsyncConnection.connect(
        address.conninfo(DATABASE_SERVICE, password), options=_OPTIONS, row_factory=dict_row, autocommit=True
    )


async def test_broken_sql_of_one_session_cannot_touch_another(world: World) -> None:
    mine, other = await full_session(world), await full_session(world)
    tables = tenant_tables(world)
    assert len(tables) == 20
    async with await service_connection(world) as connection:
        for table in tables:
            transaction = Transaction(connection, Scope(sid=mine.sid), durable=True)
            (rows,) = await transaction.ask((f"select sid from {table}", ()))  # type: ignore[arg-type]
            assert {row["sid"] for row in rows} <= {mine.sid}, table
            assert rows or table == "tombstones", table
            await transaction.ask((f"update {table} set sid = sid", ()))  # type: ignore[arg-type]
            await transaction.ask((f"delete from {table}", ()))  # type: ignore[arg-type]
            await connection.rollback()
            with pytest.raises(errors.InsufficientPrivilege):
                await Transaction(connection, Scope(sid=mine.sid), durable=True).ask(
                    (
                        f"update {table} set sid = %s"
                        if table != "tombstones"
                        else f"insert into {table} (sid, epoch) values (%s, 1)",
                        (other.sid,),
                    )  # type: ignore[arg-type]
                )
            await connection.rollback()
            nobody = Transaction(connection, Scope(), durable=True)
            assert await nobody.ask((f"select sid from {table}", ())) == [[]], table  # type: ignore[arg-type]
            await connection.rollback()
    for table in tables:
        if table != "tombstones":
            assert world.rows(f"select 1 from {table} where sid = %s limit 1", other.sid), table


async def test_spending_is_walled_by_tenant_and_logins_by_their_digest(world: World) -> None:
    mine = await full_session(world)
    login, foreign = "a" * 64, "b" * 64
    world.rows_change(
        "insert into logins values (%s, 1, 'sealed'), (%s, 1, 'sealed') on conflict do nothing", login, foreign
    )
    opened = {"logins": f"login:{login}", "profile_spend": "spend:team"}
    shut = (Scope(), Scope(sid=mine.sid, owner="ada"), Scope(task="spend:other"), Scope(task="login:"), Scope(task="relay"))
    async with await service_connection(world) as connection:
        for table, task in opened.items():
            for scope in shut:
                transaction = Transaction(connection, scope, durable=True)
                assert await transaction.ask((f"select * from {table}", ())) == [[]], (table, scope)  # type: ignore[arg-type]
                await connection.rollback()
            transaction = Transaction(connection, Scope(task=task), durable=True)
            (rows,) = await transaction.ask((f"select * from {table}", ()))  # type: ignore[arg-type]
            assert {row.get("login", row.get("namespace")) for row in rows} == {login if table == "logins" else "team"}
            await connection.rollback()
        with pytest.raises(errors.InsufficientPrivilege):
            await Transaction(connection, Scope(task=f"login:{login}"), durable=True).ask(
                ("insert into logins values (%s, 1, 'forged')", ("c" * 64,))
            )
        await connection.rollback()


async def test_a_setting_does_not_outlive_its_transaction(world: World) -> None:
    session = await full_session(world)
    async with await service_connection(world) as connection:
        await Transaction(connection, Scope(sid=session.sid), durable=True).commit(("select 1", ()))
        cursor = await connection.execute("select count(*) as seen from messages")
        assert await cursor.fetchone() == {"seen": 0}


async def test_a_batch_that_is_a_whole_transaction_is_written_whole_or_not_at_all(world: World) -> None:
    session = await full_session(world)
    rename = ("update sessions set title = 'half' where sid = %s", (session.sid,))
    async with await service_connection(world) as connection:
        with pytest.raises(errors.DivisionByZero):
            await Transaction(connection, Scope(sid=session.sid), durable=True).commit(rename, ("select 1 / 0", ()))
        assert world.rows("select title from sessions where sid = %s", session.sid) == [("",)]
        await Transaction(connection, Scope(sid=session.sid), durable=True).commit(rename, ("select 1", ()))
        assert world.rows("select title from sessions where sid = %s", session.sid) == [("half",)]


async def test_an_agent_cannot_write_into_another_sessions_turn(world: World) -> None:
    mine, other = await full_session(world), await full_session(world)
    agent = await world.agent(mine.sid, 1)
    [(turn_id,)] = world.rows("select turn_id from turns where sid = %s", other.sid)
    with pytest.raises(HermesError) as caught:
        await agent.call(APPEND, AppendRequest(turn_id=str(turn_id), step=5, messages=(Message.user("x"),)))
    assert caught.value.code is ErrorCode.NOT_FOUND
    page = await agent.call(LOAD, LoadRequest(conversation=other.conversation))
    assert page.messages == () and page.prompt is None
    with pytest.raises(HermesError) as caught:
        await agent.call(OPEN_TURN, OpenTurnRequest(inbound=other.inbound("new"), ack_subject="", stream_sequence=2))
    assert caught.value.code is ErrorCode.INVALID


async def test_purge_leaves_nothing_but_the_number_of_the_last_epoch(world: World) -> None:
    session, other = await full_session(world), await full_session(world)
    operator = await world.service(Role.OPERATOR)
    await operator.call(PURGE, SidRequest(sid=session.sid))
    await operator.call(PURGE, SidRequest(sid=session.sid))
    pieces = "select 1 from workspace_pieces where sid = %s"
    await eventually(lambda: not world.rows(pieces, session.sid), "what is kept elsewhere is deleted there first", 60)
    for table in tenant_tables(world):
        left = world.rows(f"select 1 from {table} where sid = %s", session.sid)
        assert bool(left) == (table == "tombstones"), table
        assert table == "tombstones" or world.rows(f"select 1 from {table} where sid = %s", other.sid), table
    gateway = await world.service(Role.GATEWAY)
    with pytest.raises(HermesError) as caught:
        await gateway.call(GET_SESSION, OwnedSessionRequest(sid=session.sid, owner="ada"))
    assert caught.value.code is ErrorCode.NOT_FOUND
    old = await world.agent(session.sid, 1)
    raised = await operator.call(RAISE_EPOCH, RaiseEpochRequest(route=session.route, expected=0))
    assert raised.epoch == 2, "an agent of the former life must not be taken for one of the next"
    with pytest.raises(HermesError) as caught:
        await old.call(OPEN_TURN, OpenTurnRequest(inbound=session.inbound("u"), ack_subject="", stream_sequence=1))
    assert caught.value.code is ErrorCode.FENCED
