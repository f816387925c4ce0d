"""What the operator asks: a new epoch, summaries for its objects, the end of a session's data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from psycopg.types.json import Jsonb

from hermes_contracts.envelopes import Route
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    Empty,
    RaiseEpochReply,
    RaiseEpochRequest,
    SessionIdsRequest,
    SessionSummaries,
    SessionSummary,
    SidRequest,
)  # fmt: skip
from hermes_gateway.store.answers import storable
from hermes_gateway.store.database import Database, Row, Scope, Statement, Transaction
from hermes_gateway.store.usage import USAGE_COLUMNS, usage_of
from hermes_gateway.store.workspaces.snapshots import forget_workspace
from hermes_service.rpc import Caller

# A purged session that comes back goes on counting where it stopped: an agent of its former life stays fenced.
_INSERT_SESSION = """
insert into sessions (sid, namespace, profile, owner, key, title, epoch)
values (%s, %s, %s, %s, %s, %s, coalesce((select epoch from tombstones where sid = %s), 0))
on conflict (sid) do nothing
"""
_LOCK = """
select epoch, (select max(epoch) from tombstones t where t.sid = s.sid) as buried
from sessions s where sid = %s for update
"""
_RAISE = "update sessions set epoch = epoch + 1, state = '', pod = '' where sid = %s returning epoch"
_SUMMARIES: LiteralString = f"""
select sid, epoch, extract(epoch from last_activity)::float8 as last_activity, turns, failed_deliveries, last_error,
    {USAGE_COLUMNS},
    (select count(*) from turns t where t.sid = s.sid and t.state in ('received', 'running')) as running_turns,
    (select count(*) from commands c where c.sid = s.sid and c.result is null) as open_commands
from sessions s where sid = any(%s)
"""
_BURY_EPOCH = """
insert into tombstones (sid, epoch, namespace, profile) select sid, epoch, namespace, profile from sessions where sid = %s
on conflict (sid) do update
    set epoch = excluded.epoch, namespace = excluded.namespace, profile = excluded.profile, purged_at = now()
"""


def insert_session(route: Route, title: str) -> Statement:
    """Write a session's row unless it is there."""
    key = {name: storable(value) for name, value in route.key.model_dump().items()}
    owner = storable(route.owner)
    return (
        _INSERT_SESSION,
        (route.sid, route.namespace, route.profile, owner, Jsonb(key), storable(title), route.sid),
    )


def purge_statements(sid: str) -> list[Statement]:
    """Delete all of a session but the number of its last epoch."""
    return [
        (_BURY_EPOCH, (sid,)),
        ("delete from messages where sid = %s", (sid,)),
        ("delete from conversations where sid = %s", (sid,)),
        ("delete from conversation_choices where sid = %s", (sid,)),
        ("delete from compactions where sid = %s", (sid,)),
        ("delete from media_pages where sid = %s", (sid,)),
        ("delete from media where sid = %s", (sid,)),
        ("delete from files where sid = %s", (sid,)),
        ("delete from session_spend where sid = %s", (sid,)),
        *forget_workspace(sid),
        ("delete from journal where sid = %s", (sid,)),
        ("delete from steps where sid = %s", (sid,)),
        ("delete from deliveries where sid = %s", (sid,)),
        ("delete from outbox where sid = %s", (sid,)),
        ("delete from commands where sid = %s", (sid,)),
        ("delete from approvals where sid = %s", (sid,)),
        ("delete from usage where sid = %s", (sid,)),
        ("delete from turns where sid = %s", (sid,)),
        ("delete from sessions where sid = %s", (sid,)),
    ]


@dataclass(frozen=True)
class Epochs:
    """Handlers of `raise_epoch`, `summaries` and `purge`."""

    database: Database

    async def raise_epoch(self, _: Caller, request: RaiseEpochRequest) -> RaiseEpochReply:
        """Begin a session's next life if its epoch is still the expected one. Who asks twice may be told CONFLICT."""
        sid = request.route.sid

        async def work(transaction: Transaction) -> RaiseEpochReply:
            insert = [insert_session(request.route, "")] if request.expected == 0 else []
            *_, rows = await transaction.ask(*insert, (_LOCK, (sid,)))
            if not rows:
                raise HermesError(ErrorCode.CONFLICT, f"session {sid} is not in the store: current epoch is 0")
            epoch = rows[0]["epoch"]
            # "0" means "no life yet"; for a session that came back after a purge that is the epoch it was buried with.
            if request.expected != epoch and not (request.expected == 0 and epoch == rows[0]["buried"]):
                raise HermesError(
                    ErrorCode.CONFLICT, f"session {sid} was expected at epoch {request.expected}: current epoch is {epoch}"
                )
            (raised,) = await transaction.commit((_RAISE, (sid,)))
            return RaiseEpochReply(epoch=raised[0]["epoch"])

        return await self.database.run(Scope(sid=sid), work)

    async def summaries(self, _: Caller, request: SessionIdsRequest) -> SessionSummaries:
        """Return what the status of each asked session mirrors."""

        async def work(transaction: Transaction) -> SessionSummaries:
            (rows,) = await transaction.commit((_SUMMARIES, (list(request.sids),)))
            return SessionSummaries(sessions=tuple(map(_summary, rows)))

        return await self.database.run(Scope(task="summaries"), work)

    async def purge(self, _: Caller, request: SidRequest) -> Empty:
        """Delete a session's data; harmless when there is none."""

        async def work(transaction: Transaction) -> Empty:
            await transaction.ask(("select from sessions where sid = %s for update", (request.sid,)))
            await transaction.commit(*purge_statements(request.sid))
            return Empty()

        return await self.database.run(Scope(sid=request.sid), work)


def _summary(row: Row) -> SessionSummary:
    return SessionSummary(
        sid=row["sid"],
        epoch=row["epoch"],
        last_activity=row["last_activity"],
        turns=row["turns"],
        running_turns=row["running_turns"],
        open_commands=row["open_commands"],
        usage=usage_of(row),
        failed_deliveries=row["failed_deliveries"],
        last_error=row["last_error"],
    )
