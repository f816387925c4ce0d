"""Sessions: what agents report, and what their owners may see, make and delete. A foreign session is not found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    AgentState,
    CreateSessionRequest,
    Empty,
    GetTurnRequest,
    ListSessionsReply,
    ListSessionsRequest,
    OwnedSession,
    OwnedSessionRequest,
    ReportReply,
    ReportRequest,
    Turn,
    TurnState,
)  # fmt: skip
from hermes_gateway.store import rules
from hermes_gateway.store.answers import storable
from hermes_gateway.store.database import Database, Row, Scope, Statement, Transaction
from hermes_gateway.store.epochs import insert_session, purge_statements
from hermes_gateway.store.usage import USAGE_COLUMNS, usage_of
from hermes_service.rpc import Caller

_REPORT = "update sessions set state = %s, pod = %s, last_activity = now() where sid = %s"
_INTERRUPTED = "select ack_subject from turns where sid = %s and epoch = %s and state = 'running' and ack_subject <> ''"
_HAND_BACK = "update turns set handed_back = true where sid = %s and epoch = %s and state = 'running'"

_SESSION_COLUMNS: LiteralString = f"""
select sid, namespace, profile, owner, key, title, turns,
    extract(epoch from created_at)::float8 as created_at, extract(epoch from last_activity)::float8 as last_activity,
    {USAGE_COLUMNS},
    (select count(*) from turns t where t.sid = s.sid and t.state in ('received', 'running')) as running_turns
from sessions s
"""
_ONE_SESSION: LiteralString = _SESSION_COLUMNS + "where sid = %s"
_OWNED_SESSIONS: LiteralString = (
    _SESSION_COLUMNS
    + """
where owner = %s and namespace = %s and (%s::text is null or profile = %s)
    and (%s::float8 is null or (last_activity, sid) < (to_timestamp(%s::float8), %s collate "C"))
order by last_activity desc, sid desc limit %s
"""
)
_TURN: LiteralString = f"""
select turn_id, state, reply, reason, {USAGE_COLUMNS}
from turns where sid = %s and channel = %s and account = %s and update_id = %s
"""
_OWNER = "select owner from sessions where sid = %s"


def require_owner(sessions: list[Row], sid: str, owner: str) -> None:
    """Raise NOT_FOUND unless the session is there and the owner's; a stranger learns no difference."""
    if not sessions or sessions[0]["owner"] != owner:
        raise HermesError(ErrorCode.NOT_FOUND, f"there is no session {sid}")


@dataclass(frozen=True)
class Sessions:
    """Handlers of `report`, `create_session`, `get_session`, `list_sessions`, `delete_session` and `get_turn`."""

    database: Database

    async def report(self, caller: Caller, request: ReportRequest) -> ReportReply:
        """Note an agent's state. `ready` returns what its former life had pulled; `drained` marks turns as handed back."""

        async def work(transaction: Transaction) -> ReportReply:
            sessions, interrupted = await transaction.ask(
                ("select epoch from sessions where sid = %s for update", (caller.sid,)),
                (_INTERRUPTED, (caller.sid, caller.epoch)),
            )
            rules.require_epoch(sessions[0]["epoch"] if sessions else None, caller.sid, caller.epoch)
            drained: list[Statement] = []
            if request.state is AgentState.DRAINED:
                drained.append((_HAND_BACK, (caller.sid, caller.epoch)))
            await transaction.commit((_REPORT, (request.state, storable(request.pod[:253]), caller.sid)), *drained)
            acks = tuple(row["ack_subject"] for row in interrupted) if request.state is AgentState.READY else ()
            return ReportReply(interrupted_acks=acks)

        return await self.database.run(Scope(sid=caller.sid), work, durable=request.state is AgentState.DRAINED)

    async def create(self, _: Caller, request: CreateSessionRequest) -> OwnedSession:
        """Insert or get a session's row. It has no agent yet: its epoch is that of its last life, or 0."""
        route = request.route

        async def work(transaction: Transaction) -> OwnedSession:
            _, found = await transaction.commit(insert_session(route, request.title), (_ONE_SESSION, (route.sid,)))
            require_owner(found, route.sid, route.owner)
            return _owned(found[0])

        return await self.database.run(Scope(sid=route.sid), work)

    async def get(self, _: Caller, request: OwnedSessionRequest) -> OwnedSession:
        """Return one session of an owner."""

        async def work(transaction: Transaction) -> OwnedSession:
            (found,) = await transaction.commit((_ONE_SESSION, (request.sid,)))
            require_owner(found, request.sid, request.owner)
            return _owned(found[0])

        return await self.database.run(Scope(sid=request.sid), work)

    async def list(self, _: Caller, request: ListSessionsRequest) -> ListSessionsReply:
        """Return a page of an owner's sessions, newest activity first."""
        at, sid = request.before or (None, None)
        profile = request.profile
        arguments = (request.owner, request.namespace, profile, profile, at, at, sid, request.limit + 1)

        async def work(transaction: Transaction) -> ListSessionsReply:
            (rows,) = await transaction.commit((_OWNED_SESSIONS, arguments))
            page = tuple(_owned(row) for row in rows[: request.limit])
            return ListSessionsReply(sessions=page, more=len(rows) > request.limit)

        return await self.database.run(Scope(owner=request.owner), work)

    async def delete(self, _: Caller, request: OwnedSessionRequest) -> Empty:
        """Purge a session for its owner; a second call finds nothing and says so by NOT_FOUND."""

        async def work(transaction: Transaction) -> Empty:
            (found,) = await transaction.ask(("select owner from sessions where sid = %s for update", (request.sid,)))
            require_owner(found, request.sid, request.owner)
            await transaction.commit(*purge_statements(request.sid))
            return Empty()

        return await self.database.run(Scope(sid=request.sid), work)

    async def get_turn(self, _: Caller, request: GetTurnRequest) -> Turn:
        """Return a turn by what the platform calls its message; `found` False while no agent has opened it."""
        place = (request.sid, storable(request.channel), storable(request.account), storable(request.update_id))

        async def work(transaction: Transaction) -> Turn:
            owners, turns = await transaction.commit((_OWNER, (request.sid,)), (_TURN, place))
            if owners:  # before its first epoch a session has no row: then nobody's turn is hidden by saying so
                require_owner(owners, request.sid, request.owner)
            if not turns:
                return Turn(found=False)
            row = turns[0]
            state = TurnState(row["state"])
            return Turn(
                found=True,
                turn_id=row["turn_id"],
                state=state,
                reply=row["reply"],
                reason=row["reason"][:64],
                usage=usage_of(row),
            )

        return await self.database.run(Scope(sid=request.sid), work)


def _owned(row: Row) -> OwnedSession:
    return OwnedSession(
        sid=row["sid"],
        namespace=row["namespace"],
        profile=row["profile"],
        key=row["key"],
        title=row["title"],
        created_at=row["created_at"],
        last_activity=row["last_activity"],
        turns=row["turns"],
        running_turns=row["running_turns"],
        usage=usage_of(row),
    )
