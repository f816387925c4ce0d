"""Logins whose provider hands out a new refresh token each time: kept sealed, changed by compare-and-set."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import LoginReply, LoginRequest, PutLoginRequest
from hermes_gateway.store.database import Database, Row, Scope, Transaction
from hermes_service.rpc import Caller

_READ = "select revision, sealed from logins where login = %s"
_INSERT = """
insert into logins (login, revision, sealed) select %s, 1, %s where %s::bigint = 0 on conflict (login) do nothing
"""
_UPDATE = "update logins set revision = revision + 1, sealed = %s, changed_at = now() where login = %s and revision = %s"


@dataclass(frozen=True)
class Logins:
    """Handlers of `get_login` and `put_login`."""

    database: Database

    async def get(self, _: Caller, request: LoginRequest) -> LoginReply:
        """Return a login's state; revision 0 when nothing was kept yet."""

        async def work(transaction: Transaction) -> LoginReply:
            (rows,) = await transaction.commit((_READ, (request.login,)))
            return _reply(rows)

        return await self.database.run(_scope(request.login), work)

    async def put(self, _: Caller, request: PutLoginRequest) -> LoginReply:
        """Keep the next state. CONFLICT when the revision was not the expected one; a repeated call is not a conflict."""

        async def work(transaction: Transaction) -> LoginReply:
            *_, rows = await transaction.commit(
                (_INSERT, (request.login, request.sealed, request.expected)),
                (_UPDATE, (request.sealed, request.login, request.expected)),
                (_READ, (request.login,)),
            )
            return _reply(rows)

        kept = await self.database.run(_scope(request.login), work)
        if (kept.revision, kept.sealed) != (request.expected + 1, request.sealed):
            raise HermesError(
                ErrorCode.CONFLICT,
                f"put_login: expected revision {request.expected}, but it is {kept.revision}: read again and use that one",
            )
        return kept


def _scope(login: str) -> Scope:
    return Scope(task=f"login:{login}")


def _reply(rows: list[Row]) -> LoginReply:
    return LoginReply(revision=rows[0]["revision"], sealed=rows[0]["sealed"]) if rows else LoginReply(revision=0, sealed="")
