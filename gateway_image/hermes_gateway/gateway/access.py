"""Who may call: API keys, webhook routes and chat accounts, from mounted files that are followed. Default is deny."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, TypeVar

import structlog
from pydantic import ValidationError

from hermes_contracts.access import (
    ApiKeyRecord,
    ApiKeys,
    ChatAccount,
    Scope,
    SlackAccount,
    SlackAccounts,
    TelegramAccount,
    TelegramAccounts,
    WebhookRoute,
    WebhookRoutes,
)  # fmt: skip
from hermes_gateway.gateway.channels.commands import COMMANDS_BY_NAME
from hermes_gateway.gateway.web.errors import ApiError

log = structlog.get_logger()

T = TypeVar("T")

_MAX_FILE_BYTES = 4 * 1024 * 1024


class RecordProblem(ValueError):
    """What is wrong with a file of records, in words that hold no secret."""


class RecordFile(Generic[T]):
    """A file of records. A missing one means none; a broken one keeps what was good before, and `problem` says why."""

    def __init__(self, path: Path, parse: Callable[[bytes], T], empty: T) -> None:
        self._path = path
        self._parse = parse
        self._empty = empty
        self._seen: tuple[int, int, int] | None = None
        self.current = empty
        self.problem: str | None = None

    def refresh(self) -> None:
        """Read the file if it is another one than last time."""
        try:
            stat = self._path.stat()
            identity = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
            if identity == self._seen:
                return
            if stat.st_size > _MAX_FILE_BYTES:
                raise RecordProblem(f"larger than {_MAX_FILE_BYTES} bytes")
            self.current = self._parse(self._path.read_bytes())
            self._seen, self.problem = identity, None
            log.info("access.loaded", file=self._path.name)
        except FileNotFoundError:
            self.current, self._seen, self.problem = self._empty, None, None
        except (OSError, ValueError) as error:
            problem = f"{self._path.name}: {_explain(error)}"
            if problem != self.problem:
                log.error("access.unreadable", problem=problem)
            self.problem = problem

    async def follow(self, every_seconds: float = 2.0) -> None:
        """Refresh for ever."""
        while True:
            await asyncio.sleep(every_seconds)
            await asyncio.to_thread(self.refresh)


def _explain(error: OSError | ValueError) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False)[:3])
    return str(error)[:500] if isinstance(error, OSError | RecordProblem) else "cannot be read"


class Keyring:
    """API keys. Only hashes are held, and every one is compared whoever asks, so that time tells nothing."""

    def __init__(self, keys: ApiKeys | None = None) -> None:
        records = keys.keys if keys is not None else ()
        for record in records:
            if not record.owner.isprintable():
                raise RecordProblem(f"key {record.id}: owner must be printable text")
        self._records = [(bytes.fromhex(record.sha256), record) for record in records]

    @classmethod
    def parse(cls, data: bytes) -> Keyring:
        """Read `keys.json`. Raises ValueError."""
        return cls(ApiKeys.model_validate_json(data))

    def owners(self, namespace: str) -> frozenset[str]:
        """Return the owners of a namespace's keys."""
        return frozenset(record.owner for _, record in self._records if record.namespace == namespace)

    def __len__(self) -> int:
        return len(self._records)

    def authenticate(self, authorization: str | None) -> ApiKeyRecord:
        """Return whose key a request carries. Raises ApiError 401."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise ApiError(401, "send your API key as `Authorization: Bearer <key>`", code="missing_api_key")
        digest = hashlib.sha256(token.strip().encode("latin-1", "replace")).digest()
        found: ApiKeyRecord | None = None
        for known, record in self._records:
            if hmac.compare_digest(known, digest):
                found = record
        if found is None:
            raise ApiError(401, "the API key is not valid", code="invalid_api_key")
        return found


def require_scope(caller: ApiKeyRecord, scope: Scope) -> None:
    """Raise ApiError 403 unless the key has a scope."""
    if scope not in caller.scopes:
        raise ApiError(403, f"the API key {caller.id} lacks the scope {scope!r}", code="insufficient_scope")


def parse_webhooks(data: bytes) -> dict[str, WebhookRoute]:
    """Read `webhooks.json`: routes by name. Raises ValueError when a name occurs twice."""
    routes = WebhookRoutes.model_validate_json(data).routes
    found = {route.name: route for route in routes}
    if len(found) != len(routes):
        raise RecordProblem("a webhook name occurs twice")
    return found


def parse_slack(data: bytes) -> dict[str, SlackAccount]:
    """Read `slack.json`: accounts by name. Raises ValueError when one is wrong, or is there twice."""
    accounts = SlackAccounts.model_validate_json(data).accounts
    found = {account.name: account for account in accounts}
    if len(found) != len(accounts) or len({account.account for account in accounts}) != len(accounts):
        raise RecordProblem("a Slack account's name, or an app in a workspace, occurs twice")
    require_commands(accounts)
    return found


def parse_telegram(data: bytes) -> dict[str, TelegramAccount]:
    """Read `telegram.json`: accounts by name. Raises ValueError when one is wrong, or is there twice."""
    accounts = TelegramAccounts.model_validate_json(data).accounts
    found = {account.name: account for account in accounts}
    if len(found) != len(accounts) or len({account.account for account in accounts}) != len(accounts):
        raise RecordProblem("a Telegram account's name, or a bot, occurs twice")
    require_commands(accounts)
    return found


def require_commands(accounts: Iterable[ChatAccount]) -> None:
    """Refuse a command that there is not, or that is for admins only: listed, it would allow nothing and nobody would know.

    Raises RecordProblem.
    """
    for account in accounts:
        for field in ("user_commands", "group_user_commands"):
            for name in getattr(account, field):
                spec = COMMANDS_BY_NAME.get(name)
                if spec is None or spec.admins_only:
                    why = "there is no command" if spec is None else "only admins may say the command"
                    known = ", ".join(sorted(n for n, one in COMMANDS_BY_NAME.items() if not one.admins_only))
                    raise RecordProblem(f"account {account.name}: {field}: {why} {name!r}; there are {known}")
