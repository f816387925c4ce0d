"""Cleans up what nothing needs any more, a bounded batch at a time; several replicas may do it at once."""

from __future__ import annotations

import asyncio

import structlog

from hermes_contracts.errors import HermesError
from hermes_gateway.store.commands import COMMAND_LIFE_SECONDS
from hermes_gateway.store.database import Database, Scope, Statement

log = structlog.get_logger()

_EVERY_SECONDS = 60.0
_BATCH = 2000
_DAY = 86_400

_OUTBOX = """
delete from outbox where id in (select id from outbox where relayed_at < now() - make_interval(secs => %s)
    order by relayed_at limit %s for update skip locked)
"""
_STEPS = """
delete from steps where (sid, turn_id, step) in (
    select s.sid, s.turn_id, s.step from steps s join turns t using (sid, turn_id)
    where t.settled_at < now() - make_interval(secs => %s) limit %s)
"""
_JOURNAL = """
delete from journal where (sid, turn_id, call_id) in (
    select j.sid, j.turn_id, j.call_id from journal j join turns t using (sid, turn_id)
    where t.settled_at < now() - make_interval(secs => %s) limit %s)
"""
_COMMANDS = """
update commands set result = 'Nobody was running to do this.', finished_at = now()
where result is null and created_at < now() - make_interval(secs => %s)
"""
# What never became whole, and what came for a session that nobody ever made.
_MEDIA = """
with gone as (
    delete from media m where created_at < now() - make_interval(secs => %s)
        and (received < total or (created_at > now() - make_interval(secs => %s)
            and not exists (select from sessions s where s.sid = m.sid)))
    returning sid, media_id
)
delete from media_pages p using gone where p.sid = gone.sid and p.media_id = gone.media_id
"""
_LOGINS = "delete from logins where changed_at < now() - make_interval(secs => %s)"
_SPEND = "delete from profile_spend where day < (now() at time zone 'utc')::date - 400"

# The row policies say what is old enough.
_AUDIT = "delete from people_audit where at < now() - interval '400 days'"
_PAIRING = "delete from pairing_requests where requested_at < now() - interval '1 day'"
_LINK_CODES = "delete from link_codes where asked_at < now() - interval '1 day'"
_LINK_FAILURES = "delete from link_failures where last_at < now() - interval '1 day'"


def clean_statements(outbox_seconds: int, detail_seconds: int) -> list[Statement]:
    """Return one pass of cleaning."""
    return [
        (_OUTBOX, (outbox_seconds, _BATCH)),
        (_JOURNAL, (detail_seconds, _BATCH)),
        (_STEPS, (detail_seconds, _BATCH)),
        (_COMMANDS, (COMMAND_LIFE_SECONDS,)),
        (_MEDIA, (_DAY, 8 * _DAY)),
        (_LOGINS, (400 * _DAY,)),
        (_SPEND, ()),
        (_AUDIT, ()),
        (_PAIRING, ()),
        (_LINK_CODES, ()),
        (_LINK_FAILURES, ()),
    ]


async def _clean(database: Database, statement: Statement) -> None:
    await database.run(Scope(task="janitor"), lambda transaction: transaction.commit(statement))


async def clean_for_ever(database: Database, *, outbox_seconds: int, detail_seconds: int) -> None:
    """Clean once a minute."""
    statements = clean_statements(outbox_seconds, detail_seconds)
    while True:
        try:
            for statement in statements:
                await _clean(database, statement)
        except HermesError as error:
            log.warning("store.janitor.failed", error=error.message)
        await asyncio.sleep(_EVERY_SECONDS)
