"""The door to PostgreSQL: transactions confined to one session, pipelined, retried when repeating them is safe.

Every method of the store may be repeated, so a transaction that lost its connection or a race is simply run again;
whether the lost one had committed is found by its idempotency key.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg import AsyncConnection, errors
from psycopg.conninfo import make_conninfo
from psycopg.rows import DictRow, dict_row
from psycopg.types.numeric import Int8Dumper
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from hermes_contracts.errors import ErrorCode, HermesError

SCHEMA = "hermes"
_OPTIONS = (
    f"-c search_path={SCHEMA} -c synchronous_commit=on -c plan_cache_mode=force_generic_plan "
    "-c statement_timeout=5000 -c lock_timeout=3000 "
    "-c idle_in_transaction_session_timeout=15000"
)
_TRIES = 4
_PREPARED = 200
_BROKEN = (psycopg.OperationalError, psycopg.InterfaceError)
_RACES = (errors.SerializationFailure, errors.DeadlockDetected)

_CONFINE: LiteralString = (
    "select set_config('hermes.sid', %s, true), set_config('hermes.owner', %s, true), "
    "set_config('hermes.task', %s, true), set_config('synchronous_commit', %s, true)"
)

Row = dict[str, Any]
Statement = tuple[LiteralString, Sequence[object] | Mapping[str, object]]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Scope:
    """What a transaction may see and write; the database's row policies hold it to that. An empty field opens nothing."""

    sid: str = ""
    owner: str = ""
    task: str = ""


class Transaction:
    """Batches of statements on one connection; a batch is one round trip. The first one opens, `commit` closes.

    A round trip costs more than the statements in it, so the paths that agents wait for are two batches: read, then write.
    """

    def __init__(self, connection: AsyncConnection[DictRow], scope: Scope, *, durable: bool) -> None:
        self._connection = connection
        self._scope = scope
        self._durable = durable
        self._confined = False

    async def ask(self, *statements: Statement) -> list[list[Row]]:
        """Run a batch; returns each statement's rows."""
        return await self._batch(statements, commit=False)

    async def commit(self, *statements: Statement) -> list[list[Row]]:
        """Run the last batch and commit."""
        return await self._batch(statements, commit=True)

    async def _batch(self, statements: Sequence[Statement], *, commit: bool) -> list[list[Row]]:
        connection = self._connection
        opens = not self._confined
        # A batch that is the whole transaction needs no words for it: the server takes all up to the batch's end as one.
        whole = opens and commit
        async with connection.pipeline():
            if opens:
                if not whole:
                    await connection.execute("begin")
                await connection.execute(_CONFINE, self._confinement(), prepare=True)
                self._confined = True
            cursors = [await connection.execute(query, arguments, prepare=True) for query, arguments in statements]
            if commit and not whole:
                # As a statement: the driver's own commit() in a pipeline costs a round trip more.
                await connection.execute("commit")
        return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]

    def _confinement(self) -> Sequence[object]:
        return (self._scope.sid, self._scope.owner, self._scope.task, "on" if self._durable else "off")


async def _configure(connection: AsyncConnection[DictRow]) -> None:
    # By default a number's type follows its value, and every mix of sizes in a statement is planned and kept by itself.
    connection.adapters.register_dumper(int, Int8Dumper)
    connection.prepared_max = _PREPARED


class Database:
    """A pool of connections of the service role."""

    def __init__(self, conninfo: str, *, connections: int, name: str) -> None:
        self._pool: AsyncConnectionPool[AsyncConnection[DictRow]] = AsyncConnectionPool(
            conninfo,
            kwargs={"autocommit": True, "row_factory": dict_row, "options": _OPTIONS},
            min_size=min(4, connections),
            max_size=connections,
            timeout=2.0,
            # After this the pool stops trying and the next request starts over: its own pauses would double without end.
            reconnect_timeout=3.0,
            max_waiting=connections * 16,
            open=False,
            name=name,
            configure=_configure,
        )

    async def __aenter__(self) -> Database:
        """Open the pool; connections are made in the background."""
        await self._pool.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every connection."""
        await self._pool.close(timeout=2.0)

    async def run(self, scope: Scope, work: Callable[[Transaction], Awaitable[Result]], *, durable: bool = True) -> Result:
        """Run `work` in a transaction, committed when it returns and rolled back when it raises.

        `durable` False lets the commit return before it is on disk: only for what a crash may forget.
        Raises HermesError UNAVAILABLE when the database does not answer.
        """
        tries = 0
        while True:
            tries += 1
            try:
                async with self._pool.connection() as connection:
                    return await work(Transaction(connection, scope, durable=durable))
            except PoolTimeout as error:
                raise _unavailable("no connection is free or none can be made") from error
            except (errors.QueryCanceled, errors.LockNotAvailable) as error:
                raise _unavailable("a statement took too long") from error
            except (*_RACES, *_BROKEN) as error:
                if tries >= _TRIES:
                    raise _unavailable(type(error).__name__) from error
            await asyncio.sleep(random.uniform(0.005, 0.05) * tries)

    async def ping(self) -> None:
        """Raise HermesError UNAVAILABLE unless a statement gets through."""
        await self.run(Scope(), lambda transaction: transaction.ask(("select 1", ())))


def _unavailable(why: str) -> HermesError:
    return HermesError(ErrorCode.UNAVAILABLE, f"the database is not available: {why}", retryable=True)


@dataclass(frozen=True)
class Address:
    """Where the database is."""

    host: str
    port: int
    name: str
    sslmode: str

    def conninfo(self, role: str, password: str) -> str:
        """Return the connection string of a role; holds the password, so never log it."""
        return make_conninfo(
            host=self.host,
            port=self.port,
            dbname=self.name,
            user=role,
            password=password,
            sslmode=self.sslmode,
            connect_timeout=3,
            application_name="hermes-store",
            keepalives_idle=15,
            keepalives_interval=5,
            keepalives_count=3,
        )
