"""Codes that let people into a chat account: one a person, few at a time, once, for an hour, and never readable again."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest
from psycopg import errors

from hermes_contracts.bus_permissions import Role
from hermes_contracts.installation import DATABASE_SERVICE
from hermes_contracts.store_api import (
    APPROVE_PAIRING,
    LIST_PAIRINGS,
    PAIRED,
    REQUEST_PAIRING,
    REVOKE_PAIRING,
    ApprovePairingRequest,
    PairedRequest,
    Pairings,
    PairingsRequest,
    RequestPairingRequest,
    RevokePairingRequest,
)  # fmt: skip
from hermes_gateway.store.database import Address, Database, Row, Scope, Statement
from hermes_gateway.store.janitor import clean_statements
from hermes_service.rpc import StoreClient
from tests.integration.store.harness import World

CODES = ("AAAA2222", "BBBB2222", "CCCC2222", "DDDD2222")
WRONG = "ZZZZ9999"
_NUMBERS = count(1)


class Account:
    """One chat account of its own, and what is said about it."""

    def __init__(self, client: StoreClient) -> None:
        self.key = f"slack:T1.A{next(_NUMBERS)}"
        self.client = client

    async def ask(self, person: str, code: str) -> str:
        request = RequestPairingRequest(account=self.key, person=person, code=code)
        return (await self.client.call(REQUEST_PAIRING, request)).outcome

    async def approve(self, code: str) -> tuple[str, str]:
        reply = await self.client.call(APPROVE_PAIRING, ApprovePairingRequest(account=self.key, code=code, by="UBOSS"))
        return reply.outcome, reply.person

    async def revoke(self, person: str) -> None:
        await self.client.call(REVOKE_PAIRING, RevokePairingRequest(account=self.key, person=person, by="UBOSS"))

    async def paired(self, person: str) -> bool:
        return (await self.client.call(PAIRED, PairedRequest(account=self.key, person=person))).paired

    async def list(self) -> Pairings:
        return await self.client.call(LIST_PAIRINGS, PairingsRequest(account=self.key))


@pytest.fixture
async def account(world: World) -> Account:
    return Account(await world.service(Role.GATEWAY))


async def test_a_code_lets_one_person_in_once_until_it_is_taken_back(account: Account, world: World) -> None:
    other = Account(account.client)
    assert not await account.paired("U1")
    assert await account.ask("U1", CODES[0]) == "kept"
    assert await account.ask("U1", CODES[0]) == "kept"  # the same request again
    assert await account.ask("U1", CODES[1]) == "recent"
    assert not await account.paired("U1")
    assert await other.approve(CODES[0]) == ("unknown", "")
    assert await account.approve(CODES[0]) == ("approved", "U1")
    assert await account.paired("U1")
    assert not await other.paired("U1")
    assert not await account.paired("u1")
    await account.revoke("U1")
    await account.revoke("U1")
    assert await account.approve(CODES[0]) == ("approved", "U1")  # the same approval again: it does nothing any more
    assert not await account.paired("U1")
    found = await account.list()
    assert found.people == ()
    assert [(e.actor, e.action, e.person) for e in found.events] == [
        ("UBOSS", "revoked", "U1"), ("UBOSS", "approved", "U1"), ("U1", "asked", "U1"),
    ]  # fmt: skip


async def test_few_wait_at_a_time(account: Account) -> None:
    outcomes = await asyncio.gather(*(account.ask(f"U{n}", code) for n, code in enumerate(CODES)))
    assert sorted(outcomes) == ["full", "kept", "kept", "kept"]
    kept = outcomes.index("kept")
    assert await account.approve(CODES[kept]) == ("approved", f"U{kept}")
    assert await account.ask("U9", WRONG) == "kept"


async def test_codes_end_after_an_hour_and_a_new_one_may_be_asked_for_after_ten_minutes(
    account: Account, world: World
) -> None:
    await account.ask("U1", CODES[0])
    age = "update pairing_requests set requested_at = now() - interval '{}' where account = '" + account.key + "'"
    world.rows_change(age.format("11 minutes"))
    assert await account.ask("U1", CODES[1]) == "kept"
    assert await account.approve(CODES[0]) == ("unknown", "")
    world.rows_change(age.format("61 minutes"))
    assert await account.approve(CODES[1]) == ("unknown", "")
    assert not await account.paired("U1")


async def test_wrong_codes_lock_the_account_for_an_hour(account: Account, world: World) -> None:
    await account.ask("U1", CODES[0])
    for _ in range(5):
        assert await account.approve(WRONG) == ("unknown", "")
    assert await account.approve(CODES[0]) == ("locked", "")
    assert await account.ask("U2", CODES[1]) == "locked"
    assert (await account.list()).events[0].action == "locked"
    assert await Account(account.client).ask("U1", CODES[0]) == "kept"
    world.rows_change(f"update pairing_locks set locked_until = now() - interval '1 second' where account = '{account.key}'")
    assert await account.approve(WRONG) == ("unknown", "")
    assert await account.approve(CODES[0]) == ("approved", "U1")


async def test_nobody_can_read_a_code(account: Account, world: World) -> None:
    await account.ask("U1", CODES[0])
    await account.ask("U2", CODES[0])
    rows = world.rows(f"select hash, salt from pairing_requests where account = '{account.key}'")
    assert len({row[0] for row in rows}) == len({row[1] for row in rows}) == 2
    assert CODES[0] not in str(world.rows("select * from pairing_requests, people_audit"))
    assert CODES[0] not in repr(RequestPairingRequest(account=account.key, person="U1", code=CODES[0]))
    assert CODES[0] not in repr(ApprovePairingRequest(account=account.key, code=CODES[0], by="U1"))


async def test_the_record_can_only_be_added_to(account: Account, world: World) -> None:
    await account.ask("U1", CODES[0])
    address = Address("127.0.0.1", world.postgres.port, world.database, "prefer")
    conninfo = address.conninfo(DATABASE_SERVICE, (world.folder / "service-password").read_text())
    async with Database(conninfo, connections=1, name="audit") as database:

        async def run(task: str, *statements: Statement) -> list[list[Row]]:
            return await database.run(Scope(task=task), lambda transaction: transaction.commit(*statements))

        own = f"people:{account.key}"
        for task in ("", "people:slack:other", "relay"):
            for table in ("pairing_requests", "pairing_locks", "paired_people", "people_audit"):
                assert await run(task, (f"select 1 as seen from {table}", ())) == [[]], (task, table)
        with pytest.raises(errors.InsufficientPrivilege):
            await run(own, ("update people_audit set actor = 'U9'", ()))
        await run(own, ("delete from people_audit", ()))
        await run("janitor", ("delete from people_audit", ()), ("delete from pairing_requests", ()))
        assert [event.person for event in (await account.list()).events] == ["U1"]
        with pytest.raises(errors.InsufficientPrivilege):
            await run(
                "people:slack:other",
                (
                    "insert into people_audit (account, actor, action, person) values (%s, 'U9', 'approved', 'U9')",
                    (account.key,),
                ),
            )
        where = f"where account = '{account.key}'"
        world.rows_change(f"update people_audit set at = now() - interval '401 days' {where}")
        world.rows_change(f"update pairing_requests set requested_at = now() - interval '25 hours' {where}")
        await run("janitor", *clean_statements(86_400, 8 * 86_400))
        assert (await account.list()).events == ()
        assert world.rows(f"select from pairing_requests {where}") == []
