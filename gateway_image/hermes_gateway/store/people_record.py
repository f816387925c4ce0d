"""The record of who decided what about whom: added to in the transaction of the deed, read by namespace."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts.envelopes import Inbound
from hermes_contracts.store_api import PeopleEvent, PeopleRecord, PeopleRecordRequest
from hermes_contracts.store_api.people import PeopleAction
from hermes_gateway.store.answers import storable
from hermes_gateway.store.database import Database, Row, Scope, Statement, Transaction
from hermes_service.rpc import Caller

_ADD = """
insert into people_audit (account, actor, action, person, namespace, profile, sid, detail)
values (%s, %s, %s, %s, %s, %s, %s, %s)
"""
_SENT = """
insert into people_audit (account, actor, action, person, namespace, profile, sid)
select %(account)s, coalesce(nullif(%(sender)s, ''), s.owner), 'sent', s.owner, s.namespace, s.profile, s.sid
from sessions s where s.sid = %(sid)s and s.epoch = %(epoch)s and not exists (
    select from people_audit a where a.sid = s.sid and a.action = 'sent' and a.account = %(account)s
        and a.actor = coalesce(nullif(%(sender)s, ''), s.owner)
        and a.at >= date_trunc('day', now() at time zone 'utc') at time zone 'utc')
"""
_READ = """
select id, extract(epoch from at)::float8 as at, actor, action, person, account, profile, sid, detail from people_audit
where namespace = %s and profile = any(%s) and (%s::bigint is null or id < %s) and (%s or action <> 'sent')
order by id desc limit %s
"""


def decision_statement(action: PeopleAction, actor: str, session: Row, inbound: Inbound, detail: str) -> Statement:
    """Record what somebody decided about a session's question; `session` is its row."""
    values = (
        f"{inbound.channel}:{inbound.account}",
        actor,
        action,
        session["owner"],
        session["namespace"],
        session["profile"],
        session["sid"],
        detail,
    )
    return (_ADD, tuple(storable(str(value)) for value in values))


def sender_statements(inbound: Inbound, epoch: int) -> tuple[Statement, ...]:
    """Record who sent a message, once a day, account and agent; nobody sends what the clock sends."""
    if inbound.run is not None:
        return ()
    values = {
        "sid": inbound.sid,
        "epoch": epoch,
        "account": storable(f"{inbound.channel}:{inbound.account}"),
        "sender": storable(inbound.sender),
    }
    return ((_SENT, values),)


def link_statement(action: PeopleAction, namespace: str, profile: str, who: tuple[str, str], owner: str = "") -> Statement:
    """Record what a person of an account did about being one with an owner."""
    account, person = who
    return (_ADD, (account, person, action, person, namespace, profile, "", owner))


@dataclass(frozen=True)
class PeopleRecords:
    """Handler of `people_record`."""

    database: Database

    async def read(self, _: Caller, request: PeopleRecordRequest) -> PeopleRecord:
        """Return a page, newest first."""

        async def work(transaction: Transaction) -> PeopleRecord:
            values = (request.namespace, list(request.profiles), request.before, request.before)
            (rows,) = await transaction.commit((_READ, (*values, request.sent, request.limit + 1)))
            events = tuple(PeopleEvent(**row) for row in rows[: request.limit])
            return PeopleRecord(events=events, more=len(rows) > request.limit)

        return await self.database.run(Scope(task=f"record:{request.namespace}"), work)
