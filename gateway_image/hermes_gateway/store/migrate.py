"""Brings the database to the shape this version needs: the service role, then the numbered SQL files not yet applied.

Runs at every start, as the owner role, under an advisory lock, because several replicas start at once. A file is applied in
one transaction and never changed afterwards; a later release contracts what an earlier one expanded.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files

import psycopg
import structlog
from psycopg import AsyncConnection, errors, sql

from hermes_contracts.installation import DATABASE_OWNER, DATABASE_SERVICE
from hermes_gateway.store.database import SCHEMA, Address

log = structlog.get_logger()

_LOCK = 0x48_45_52_4D_45_53


class MigrationError(Exception):
    """The database cannot be used as it is; the text says what to do."""


async def migrate(address: Address, owner_password: str, service_password: str) -> None:
    """Make the role and apply what is missing. Raises MigrationError, or psycopg.OperationalError while nobody answers."""
    async with await AsyncConnection.connect(
        address.conninfo(DATABASE_OWNER, owner_password), autocommit=True
    ) as connection:
        await connection.execute("select pg_advisory_lock(%s)", (_LOCK,))
        await _ensure_role(connection, address, service_password)
        await _apply_missing(connection)
        await _check_role(connection)


async def _ensure_role(connection: AsyncConnection, address: Address, password: str) -> None:
    if await _can_log_in(address, password):
        return
    role = sql.Identifier(DATABASE_SERVICE)
    found = await connection.execute("select 1 from pg_roles where rolname = %s", (DATABASE_SERVICE,))
    verb = sql.SQL("alter role" if await found.fetchone() else "create role")
    # The server is told the verifier only: statements may be logged.
    verifier = connection.pgconn.encrypt_password(password.encode(), DATABASE_SERVICE.encode(), b"scram-sha-256")
    try:
        await connection.execute(
            sql.SQL("{} {} login noinherit nocreatedb nocreaterole password {}").format(
                verb, role, sql.Literal(verifier.decode())
            )
        )
    except errors.InsufficientPrivilege as error:
        raise MigrationError(
            f"the role {DATABASE_SERVICE} cannot log in with the given password, and {DATABASE_OWNER} may not change that: "
            f"give {DATABASE_OWNER} CREATEROLE or set the password of {DATABASE_SERVICE} by hand"
        ) from error


async def _can_log_in(address: Address, password: str) -> bool:
    try:
        async with await AsyncConnection.connect(address.conninfo(DATABASE_SERVICE, password)):
            return True
    except psycopg.OperationalError:
        return False


async def _apply_missing(connection: AsyncConnection) -> None:
    schema, service = sql.Identifier(SCHEMA), sql.Identifier(DATABASE_SERVICE)
    await connection.execute(sql.SQL("create schema if not exists {}").format(schema))
    await connection.execute(sql.SQL("grant usage on schema {} to {}").format(schema, service))
    await connection.execute(sql.SQL("set search_path = {}").format(schema))
    await connection.execute(
        "create table if not exists migrations "
        "(version integer primary key, name text not null, sha256 text not null, applied_at timestamptz default now())"
    )
    rows = await (await connection.execute("select version, sha256 from migrations")).fetchall()
    applied = {int(version): str(digest) for version, digest in rows}
    for version, name, text in _scripts():
        digest = hashlib.sha256(text.encode()).hexdigest()
        if version in applied:
            if applied[version] != digest:
                raise MigrationError(f"migration {name} was changed after it was applied; restore it and add a new one")
            continue
        async with connection.transaction():
            await connection.execute(text.encode())
            await connection.execute("insert into migrations values (%s, %s, %s)", (version, name, digest))
        log.info("store.migration.applied", migration=name)


def _scripts() -> list[tuple[int, str, str]]:
    folder = files("hermes_gateway.store") / "migrations"
    found = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return sorted((int(entry.name.split("_")[0]), entry.name, entry.read_text()) for entry in found)


async def _check_role(connection: AsyncConnection) -> None:
    cursor = await connection.execute(
        "select rolsuper or rolbypassrls from pg_roles where rolname = %s", (DATABASE_SERVICE,)
    )
    row = await cursor.fetchone()
    if row is None or row[0]:
        raise MigrationError(
            f"the role {DATABASE_SERVICE} must be neither SUPERUSER nor BYPASSRLS: row security would not hold"
        )
