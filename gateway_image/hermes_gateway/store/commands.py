"""Control commands: durable before the person is told, taken and finished by whoever runs the session."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.types.json import Jsonb

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    MAX_WAITING_COMMANDS,
    WAKING_COMMANDS,
    Command,
    CommandKind,
    Empty,
    FinishCommandRequest,
    PutCommandReply,
    PutCommandRequest,
    TakeCommandsReply,
    WaitingCommands,
)  # fmt: skip
from hermes_gateway.store import rules
from hermes_gateway.store.answers import storable
from hermes_gateway.store.database import Database, Scope, Transaction
from hermes_gateway.store.sessions import require_owner
from hermes_service.rpc import Caller

COMMAND_LIFE_SECONDS = 900
"""A command nobody took for so long is over: a /stop must not hit a turn of the next day."""
_MAX_OPEN = 100
_MAX_ARGUMENTS = 16_384

_INSERT = """
insert into commands (sid, command_id, account, update_id, kind, arguments) values (%s, %s, %s, %s, %s, %s)
on conflict (sid, account, update_id) do nothing
"""
_FIND = "select command_id, result from commands where sid = %s and account = %s and update_id = %s"
_COUNT = "select count(*) as open from commands where sid = %s and result is null"
_OPEN = """
select command_id, kind, arguments, extract(epoch from created_at)::float8 as created_at from commands
where sid = %s and result is null and created_at > now() - make_interval(secs => %s)
order by created_at, command_id limit 100
"""
_WAITING = """
select sid from commands
where result is null and kind = any(%s) and created_at > now() - make_interval(secs => %s)
group by sid order by min(created_at), sid limit %s
"""
_FINISH = "update commands set result = %s, finished_at = now() where sid = %s and command_id = %s and result is null"


@dataclass(frozen=True)
class Commands:
    """Handlers of `put_command`, `take_commands`, `waiting_commands` and `finish_command`."""

    database: Database

    async def put(self, _: Caller, request: PutCommandRequest) -> PutCommandReply:
        """Insert or get a command by what the platform calls its message."""
        sid, account, update_id = request.sid, storable(request.account[:256]), storable(request.update_id)
        arguments = {storable(name): storable(value) for name, value in request.arguments.items()}
        if sum(len(name) + len(value) for name, value in arguments.items()) > _MAX_ARGUMENTS:
            raise HermesError(ErrorCode.TOO_LARGE, f"put_command: arguments are over {_MAX_ARGUMENTS} characters")
        values = (sid, rules.command_id(sid, account, update_id), account, update_id, request.kind, Jsonb(arguments))

        async def work(transaction: Transaction) -> PutCommandReply:
            owners, counts, found = await transaction.ask(
                ("select owner from sessions where sid = %s", (sid,)),
                (_COUNT, (sid,)),
                (_FIND, (sid, account, update_id)),
            )
            require_owner(owners, sid, request.owner)
            if not found:
                if counts[0]["open"] >= _MAX_OPEN:
                    raise HermesError(
                        ErrorCode.CONFLICT, f"session {sid} has {_MAX_OPEN} unfinished commands; wait for them"
                    )
                _, found = await transaction.commit((_INSERT, values), (_FIND, (sid, account, update_id)))
            return PutCommandReply(command_id=found[0]["command_id"], result=found[0]["result"])

        return await self.database.run(Scope(sid=sid), work)

    async def take(self, caller: Caller, _: Empty) -> TakeCommandsReply:
        """Return the unfinished commands, oldest first; taking does not change them, finishing does."""

        async def work(transaction: Transaction) -> TakeCommandsReply:
            sessions, rows = await transaction.commit(
                ("select epoch from sessions where sid = %s", (caller.sid,)), (_OPEN, (caller.sid, COMMAND_LIFE_SECONDS))
            )
            rules.require_epoch(sessions[0]["epoch"] if sessions else None, caller.sid, caller.epoch)
            return TakeCommandsReply(
                commands=tuple(
                    Command(
                        command_id=row["command_id"],
                        kind=CommandKind(row["kind"]),
                        arguments=row["arguments"],
                        created_at=row["created_at"],
                    )
                    for row in rows
                )
            )

        return await self.database.run(Scope(sid=caller.sid), work)

    async def waiting(self, _: Caller, __: Empty) -> WaitingCommands:
        """Return the sessions that an unfinished command should wake."""

        async def work(transaction: Transaction) -> WaitingCommands:
            kinds = [kind.value for kind in WAKING_COMMANDS]
            (rows,) = await transaction.ask((_WAITING, (kinds, COMMAND_LIFE_SECONDS, MAX_WAITING_COMMANDS)))
            return WaitingCommands(sids=tuple(row["sid"] for row in rows))

        return await self.database.run(Scope(task="summaries"), work)

    async def finish(self, caller: Caller, request: FinishCommandRequest) -> Empty:
        """Keep the first result of a command."""

        async def work(transaction: Transaction) -> Empty:
            (sessions,) = await transaction.ask(("select epoch from sessions where sid = %s for update", (caller.sid,)))
            rules.require_epoch(sessions[0]["epoch"] if sessions else None, caller.sid, caller.epoch)
            await transaction.commit((_FINISH, (storable(request.result), caller.sid, storable(request.command_id))))
            return Empty()

        return await self.database.run(Scope(sid=caller.sid), work)
