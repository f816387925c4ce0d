"""People who say in two chats, by a code, that they are one: once, in one namespace, and never in a circle."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest
from psycopg import errors

from hermes_contracts.bus_permissions import Role
from hermes_contracts.installation import DATABASE_SERVICE
from hermes_contracts.store_api import (
    CONFIRM_LINK,
    LINKS,
    OPEN_TURN,
    PEOPLE_RECORD,
    REQUEST_LINK,
    UNLINK,
    ConfirmLinkRequest,
    Link,
    LinkedPerson,
    Links,
    LinksRequest,
    OpenTurnRequest,
    PeopleEvent,
    PeopleRecordRequest,
    RequestLinkRequest,
)  # fmt: skip
from hermes_gateway.store.database import Address, Database, Scope
from hermes_gateway.store.janitor import clean_statements
from hermes_service.rpc import StoreClient
from tests.integration.store.harness import World, awake, new_session

CODE, OTHER, WRONG = "AAAA2222", "BBBB2222", "ZZZZ9999"
SLACK, TELEGRAM = "slack:T1.A1", "telegram:77"
_NUMBERS = count(1)


class Tenant:
    """A namespace of its own."""

    def __init__(self, client: StoreClient) -> None:
        self.name = f"team-{next(_NUMBERS)}"
        self.client = client

    async def ask(self, account: str, person: str, code: str = CODE) -> str:
        request = RequestLinkRequest(namespace=self.name, account=account, person=person, owner=f"owner-{person}", code=code)
        return (await self.client.call(REQUEST_LINK, request)).outcome

    async def confirm(self, account: str, person: str, code: str = CODE) -> tuple[str, Link | None]:
        request = ConfirmLinkRequest(
            namespace=self.name, profile="helper", account=account, person=person, code=code
        )  # fmt: skip
        reply = await self.client.call(CONFIRM_LINK, request)
        return reply.outcome, reply.link

    async def links(self, account: str, person: str) -> Links:
        return await self.client.call(LINKS, LinksRequest(namespace=self.name, account=account, person=person))

    async def unlink(self, account: str, person: str) -> None:
        request = LinksRequest(namespace=self.name, account=account, person=person, profile="helper")
        await self.client.call(UNLINK, request)

    async def record(self, *profiles: str, before: int | None = None, limit: int = 100) -> tuple[PeopleEvent, ...]:
        request = PeopleRecordRequest(namespace=self.name, profiles=profiles, before=before, limit=limit)
        return (await self.client.call(PEOPLE_RECORD, request)).events


@pytest.fixture
async def tenant(world: World) -> Tenant:
    return Tenant(await world.service(Role.GATEWAY))


ANNA = Link(account=SLACK, person="UANNA", owner="owner-UANNA")


async def test_a_code_makes_two_one_until_they_part(tenant: Tenant) -> None:
    assert await tenant.ask(SLACK, "UANNA") == "kept"
    assert await tenant.ask(SLACK, "UANNA") == "kept"  # the same request again
    assert await tenant.ask(SLACK, "UANNA", OTHER) == "recent"
    assert await tenant.confirm(SLACK, "UANNA") == ("same", None)
    assert await Tenant(tenant.client).confirm(TELEGRAM, "101") == ("unknown", None)
    assert await tenant.confirm(TELEGRAM, "101") == ("linked", ANNA)
    assert await tenant.confirm(TELEGRAM, "101") == ("linked", ANNA)  # the same again
    assert await tenant.confirm(TELEGRAM, "102") == ("unknown", None)
    assert (await tenant.links(TELEGRAM, "101")).link == ANNA
    assert (await tenant.links(SLACK, "UANNA")).others == (LinkedPerson(account=TELEGRAM, person="101"),)
    await tenant.unlink(TELEGRAM, "101")
    await tenant.unlink(TELEGRAM, "101")
    assert await tenant.links(TELEGRAM, "101") == await tenant.links(SLACK, "UANNA") == Links()
    assert await tenant.confirm(TELEGRAM, "101") == ("unknown", None), "a code is good once"
    assert await tenant.ask(SLACK, "UANNA", OTHER) == "kept", "and whose was taken is given another"
    assert await tenant.confirm(TELEGRAM, "101", OTHER) == ("linked", ANNA)


async def test_a_link_is_one_step(tenant: Tenant) -> None:
    await tenant.ask(SLACK, "UANNA")
    await tenant.confirm(TELEGRAM, "101")
    # Asked for by the linked one, a code still leads to whom he is reached as.
    await tenant.ask(TELEGRAM, "101", CODE)
    assert await tenant.confirm("slack:T2.A2", "UANNA2") == ("linked", ANNA)
    assert len((await tenant.links(SLACK, "UANNA")).others) == 2
    await tenant.ask(SLACK, "UBEN", OTHER)
    assert (await tenant.confirm(TELEGRAM, "101", OTHER)) == ("linked_before", ANNA)
    assert (await tenant.confirm(SLACK, "UANNA", OTHER))[0] == "has_others"
    await tenant.unlink(SLACK, "UANNA")
    assert (await tenant.links(TELEGRAM, "101")).link is None
    assert (await tenant.confirm(SLACK, "UANNA", OTHER))[0] == "linked"


async def test_two_who_link_with_each_other_at_once_make_no_circle(tenant: Tenant) -> None:
    await tenant.ask(SLACK, "UANNA")
    await tenant.ask(TELEGRAM, "101", OTHER)
    await asyncio.gather(tenant.confirm(TELEGRAM, "101"), tenant.confirm(SLACK, "UANNA", OTHER))
    assert [(await tenant.links(*who)).link is None for who in ((SLACK, "UANNA"), (TELEGRAM, "101"))].count(True) == 1


async def test_codes_end_and_wrong_ones_lock_the_one_who_tries(tenant: Tenant, world: World) -> None:
    await tenant.ask(SLACK, "UANNA")
    for _ in range(5):
        assert await tenant.confirm(TELEGRAM, "666", WRONG) == ("unknown", None)
    assert await tenant.confirm(TELEGRAM, "666") == ("locked", None)
    assert [(e.action, e.actor) for e in await tenant.record("helper")] == [("locked", "666")]
    where = f"where namespace = '{tenant.name}'"
    world.rows_change(f"update link_failures set last_at = now() - interval '61 minutes' {where}")
    world.rows_change(f"update link_codes set asked_at = now() - interval '11 minutes' {where}")
    assert await tenant.confirm(TELEGRAM, "666") == ("unknown", None)
    assert await tenant.ask(SLACK, "UANNA", OTHER) == "kept"
    assert (await tenant.confirm(TELEGRAM, "101", OTHER))[0] == "linked"


async def test_few_have_a_code_at_a_time(tenant: Tenant, world: World) -> None:
    world.rows_change(
        "insert into link_codes (namespace, account, person, owner, salt, hash) "
        f"select '{tenant.name}', '{SLACK}', 'U' || n, 'o', '\\x00', '\\x00' from generate_series(1, 20) n"
    )
    assert await tenant.ask(SLACK, "UANNA") == "full"
    assert await Tenant(tenant.client).ask(SLACK, "UANNA") == "kept"


async def test_the_record_is_read_by_namespace_and_profile_and_never_changed(tenant: Tenant, world: World) -> None:
    await tenant.ask(SLACK, "UANNA")
    await tenant.confirm(TELEGRAM, "101")
    await tenant.unlink(SLACK, "UANNA")
    found = await tenant.record("helper")
    assert [(e.action, e.account, e.actor, e.person, e.detail) for e in found] == [
        ("unlinked", TELEGRAM, "UANNA", "101", "owner-UANNA"),
        ("linked", TELEGRAM, "101", "101", "owner-UANNA"),
    ]
    assert [e.action for e in await tenant.record("helper", limit=1)] == ["unlinked"]
    assert [e.action for e in await tenant.record("helper", before=found[0].id)] == ["linked"]
    assert await tenant.record("other") == await Tenant(tenant.client).record("helper") == ()
    assert CODE not in str(world.rows("select * from link_codes, person_links, people_audit"))
    for request in (
        RequestLinkRequest(namespace="a", account=SLACK, person="U", owner="o", code=CODE),
        ConfirmLinkRequest(namespace="a", profile="p", account=SLACK, person="U", code=CODE),
    ):
        assert CODE not in repr(request)


async def test_who_uses_an_agent_is_noted_once_a_day(tenant: Tenant, world: World) -> None:
    session = new_session()
    agent = await world.agent(session.sid, await awake(world, session))

    async def opened(update_id: str, sender: str = "") -> None:
        inbound = session.inbound(update_id).model_copy(update={"sender": sender})
        await agent.call(OPEN_TURN, OpenTurnRequest(inbound=inbound, ack_subject="a", stream_sequence=1))

    for update_id, sender in (("1", ""), ("2", ""), ("3", "UBEN"), ("4", "UBEN")):
        await opened(update_id, sender)
    where = f"where sid = '{session.sid}'"
    noted = "select action, account, actor, person, namespace, profile from people_audit " + where + " order by id"
    here = (session.route.owner, session.route.namespace, session.route.profile)
    assert world.rows(noted) == [
        ("sent", "webhook:build", session.route.owner, *here), ("sent", "webhook:build", "UBEN", *here)
    ]  # fmt: skip
    world.rows_change(f"update people_audit set at = at - interval '1 day' {where}")
    await opened("5")
    assert len(world.rows(noted)) == 3
    gateway = tenant.client
    request = PeopleRecordRequest(namespace=session.route.namespace, profiles=(session.route.profile,))
    assert "sent" not in {e.action for e in (await gateway.call(PEOPLE_RECORD, request)).events}
    with_sent = await gateway.call(PEOPLE_RECORD, request.model_copy(update={"sent": True}))
    assert with_sent.events[0].action == "sent"


async def test_each_namespace_has_its_wall(tenant: Tenant, world: World) -> None:
    await tenant.ask(SLACK, "UANNA")
    await tenant.confirm(TELEGRAM, "101")
    await tenant.confirm(TELEGRAM, "102", WRONG)
    address = Address("127.0.0.1", world.postgres.port, world.database, "prefer")
    conninfo = address.conninfo(DATABASE_SERVICE, (world.folder / "service-password").read_text())
    tables = ("link_codes", "link_failures", "person_links", "people_audit")
    async with Database(conninfo, connections=1, name="walls") as database:
        for task in ("", "links:", "links:elsewhere", "record:elsewhere", "relay"):
            for table in tables:
                seen = await database.run(
                    Scope(task=task),
                    lambda t, table=table: t.commit((f"select 1 as seen from {table} limit 1", ())),  # type: ignore[misc]
                )
                assert seen == [[]], (task, table)
        for scope in (Scope(task="links:elsewhere"), Scope(sid="s"), Scope(owner="somebody")):
            with pytest.raises(errors.InsufficientPrivilege):
                insert = (
                    "insert into people_audit (account, actor, action, person, namespace) "
                    "values ('', 'u', 'linked', 'u', %s)"
                )
                await database.run(scope, lambda t, insert=insert: t.commit((insert, (tenant.name,))))  # type: ignore[misc]
        world.rows_change(f"update link_codes set asked_at = now() - interval '25 hours' where namespace = '{tenant.name}'")
        await database.run(Scope(task="janitor"), lambda t: t.commit(*clean_statements(86_400, 8 * 86_400)))
    assert world.rows(f"select from link_codes where namespace = '{tenant.name}'") == []
    assert world.rows(f"select from person_links where namespace = '{tenant.name}'") != []
