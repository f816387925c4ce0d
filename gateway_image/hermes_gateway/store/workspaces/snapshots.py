"""Snapshots of workspaces: committed under the session's lock and epoch, so that an agent of the past changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import CommitSnapshotRequest, Empty, WorkspaceState
from hermes_gateway.store import rules
from hermes_gateway.store.answers import storable
from hermes_gateway.store.database import Database, Row, Scope, Statement, Transaction
from hermes_gateway.store.workspaces.pieces import wanted
from hermes_gateway.store.writes import LOCK_SESSION
from hermes_service.rpc import Caller

_FIND = "select number, parts, taken_at, final, live_epoch, left_out from workspace_snapshots where sid = %s"
_OPEN = """
insert into workspace_snapshots (sid, live_epoch) values (%s, %s)
on conflict (sid) do update set live_epoch = excluded.live_epoch, final = false, changed_at = now()
"""
_COUNT = "select count(*) as pieces from workspace_pieces where sid = %s and wanted = %s and collect_after is null"
_COMMIT = """
update workspace_snapshots set epoch = %s, number = %s, parts = %s, taken_at = %s, final = %s, left_out = %s,
    changed_at = now()
where sid = %s
"""
_MOVE_ON = """
update workspace_snapshots set epoch = %s, taken_at = greatest(taken_at, %s), final = final or %s, changed_at = now()
where sid = %s
"""
_UNWANTED = """
update workspace_pieces set collect_after = now() where sid = %s and collect_after is null and wanted <> %s
"""


def forget_workspace(sid: str) -> list[Statement]:
    """Return what a purge does: the list goes now, the bytes when they are collected."""
    return [
        ("delete from workspace_snapshots where sid = %s", (sid,)),
        ("update workspace_pieces set collect_after = now() where sid = %s", (sid,)),
    ]


@dataclass(frozen=True)
class Snapshots:
    """Handlers of `workspace_state`, `open_workspace` and `commit_snapshot`."""

    database: Database

    async def state(self, caller: Caller, _: Empty) -> WorkspaceState:
        """Return what is kept."""

        async def work(transaction: Transaction) -> WorkspaceState:
            found = await _locked(transaction, caller)
            await transaction.commit()
            if found is None:
                return WorkspaceState(is_first=True)
            return WorkspaceState(
                is_open=found["live_epoch"] == caller.epoch,
                number=found["number"],
                parts=tuple(found["parts"]),
                taken_at=found["taken_at"],
                is_final=found["final"],
                left_out=found["left_out"],
            )

        return await self.database.run(Scope(sid=caller.sid), work)

    async def open(self, caller: Caller, _: Empty) -> Empty:
        """Note that commands may run now: from here on, what is in no snapshot is lost with the pod."""

        async def work(transaction: Transaction) -> Empty:
            await _locked(transaction, caller)
            await transaction.commit((_OPEN, (caller.sid, caller.epoch)))
            return Empty()

        return await self.database.run(Scope(sid=caller.sid), work)

    async def commit(self, caller: Caller, request: CommitSnapshotRequest) -> Empty:
        """Make a snapshot the session's. A request that comes late, after a newer one, changes nothing."""
        mark, parts = wanted(caller.epoch, request.number), list(request.parts)

        async def work(transaction: Transaction) -> Empty:
            found = await _locked(transaction, caller)
            (counted,) = await transaction.ask((_COUNT, (caller.sid, mark)))
            if found is None:
                raise HermesError(ErrorCode.CONFLICT, "commit_snapshot: the workspace was not opened")
            if request.number < found["number"]:
                await transaction.commit()
            elif request.number == found["number"] and parts == found["parts"]:
                await transaction.commit((_MOVE_ON, (caller.epoch, request.taken_at, request.final, caller.sid)))
            else:
                if counted[0]["pieces"] != request.pieces:
                    raise HermesError(
                        ErrorCode.CONFLICT,
                        f"commit_snapshot: {counted[0]['pieces']} of {request.pieces} pieces are there; claim them again",
                    )
                values = (caller.epoch, request.number, parts, request.taken_at, request.final, storable(request.left_out))
                await transaction.commit((_COMMIT, (*values, caller.sid)), (_UNWANTED, (caller.sid, mark)))
            return Empty()

        return await self.database.run(Scope(sid=caller.sid), work)


async def _locked(transaction: Transaction, caller: Caller) -> Row | None:
    """Lock the session, check the epoch, return the snapshot's row."""
    sessions, found = await transaction.ask((LOCK_SESSION, (caller.sid,)), (_FIND, (caller.sid,)))
    rules.require_epoch(sessions[0]["epoch"] if sessions else None, caller.sid, caller.epoch)
    return found[0] if found else None
