"""The table of methods: name, handler, and what is told to whom after the commit."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from nats.aio.client import Client
from nats.errors import Error as NatsError
from pydantic import BaseModel

from hermes_contracts import store_api, subjects
from hermes_contracts.envelopes import ControlHint
from hermes_contracts.errors import HermesError
from hermes_contracts.store_api import Method, PutCommandReply, PutCommandRequest
from hermes_gateway.store import metrics
from hermes_gateway.store.approvals import ApprovalDesk
from hermes_gateway.store.commands import Commands
from hermes_gateway.store.compactions import Compactions
from hermes_gateway.store.conversations import Conversations
from hermes_gateway.store.cron import CronRuns
from hermes_gateway.store.database import Database
from hermes_gateway.store.deliveries import Deliveries
from hermes_gateway.store.epochs import Epochs
from hermes_gateway.store.grants import GrantBook
from hermes_gateway.store.known import KnownTurns
from hermes_gateway.store.logins import Logins
from hermes_gateway.store.media import Media
from hermes_gateway.store.namespaces import Namespaces
from hermes_gateway.store.pairings import PairingBook
from hermes_gateway.store.relay import Relay
from hermes_gateway.store.sessions import Sessions
from hermes_gateway.store.steps import Steps
from hermes_gateway.store.turns import Turns
from hermes_gateway.store.usage import UsageLedger
from hermes_service.rpc import Caller, Encoded, Handler

Req = TypeVar("Req", bound=BaseModel)
Rep = TypeVar("Rep", bound=BaseModel)
Typed = Callable[[Caller, Req], Awaitable[Rep | Encoded]]

_TOOL_EVENTS_SECONDS = 0.025
"""Events of tool calls leave so late at most: relaying each at once would compete with the agent's next write."""


class Table:
    """Collects handlers by method; each is timed, and relayed after when it may have written to the outbox."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self.handlers: dict[str, Handler] = {}

    def add(
        self,
        method: Method[Req, Rep],
        handler: Typed[Req, Rep],
        writes: Callable[[Caller, Req], str] | None = None,
        *,
        patience_seconds: float = 0.0,
    ) -> None:
        """Serve a method; `writes` names the session whose outbox rows wait afterwards, and may for `patience_seconds`."""

        async def serve(caller: Caller, request: BaseModel) -> BaseModel | Encoded:
            typed, started, code = cast("Req", request), time.perf_counter(), "internal"
            try:
                reply = await handler(caller, typed)
                code = "ok"
            except HermesError as error:
                code = error.code
                raise
            finally:
                metrics.CALL_SECONDS.labels(method.name, code).observe(time.perf_counter() - started)
            if writes is not None and patience_seconds:
                self._relay.hint_soon(writes(caller, typed), patience_seconds)
            elif writes is not None:
                # Not at once: the caller's reply leaves first.
                asyncio.get_running_loop().call_soon(self._relay.hint, writes(caller, typed))
            return reply

        self.handlers[method.name] = serve


def build_handlers(database: Database, relay: Relay, bus: Client) -> dict[str, Handler]:
    """Return every method of the store."""
    table = Table(relay)
    known = KnownTurns(database)
    turns, steps = Turns(database, known), Steps(database, known)
    conversations, sessions = Conversations(database), Sessions(database)
    commands, deliveries = Commands(database), Deliveries(database)
    ledger, media, logins = UsageLedger(database), Media(database), Logins(database)

    async def put_command(caller: Caller, request: PutCommandRequest) -> PutCommandReply:
        reply = await commands.put(caller, request)
        if reply.result is None:
            await _hint_control(bus, request.sid)
        return reply

    def own(caller: Caller, _: BaseModel) -> str:
        return caller.sid

    table.add(store_api.OPEN_TURN, turns.open_turn, own)
    table.add(store_api.APPEND, steps.append, own, patience_seconds=_TOOL_EVENTS_SECONDS)
    table.add(store_api.COMMIT, steps.commit, own)
    table.add(store_api.COMPACT, Compactions(database, known).compact, own)
    table.add(store_api.SET_TITLE, conversations.set_title)
    table.add(store_api.LOAD, conversations.load)
    table.add(store_api.FREEZE_PROMPT, conversations.freeze_prompt)
    table.add(store_api.REPORT, sessions.report)
    table.add(store_api.TAKE_COMMANDS, commands.take)
    table.add(store_api.FINISH_COMMAND, commands.finish)
    _add_fleet(table, database)
    _add_approvals(table, database)
    _add_people(table, database)
    table.add(store_api.WAITING_COMMANDS, commands.waiting)
    table.add(store_api.BURY, turns.bury, lambda _, request: request.inbound.sid)
    table.add(store_api.PUT_COMMAND, put_command)
    table.add(store_api.CREATE_SESSION, sessions.create)
    table.add(store_api.GET_SESSION, sessions.get)
    table.add(store_api.LIST_SESSIONS, sessions.list)
    table.add(store_api.DELETE_SESSION, sessions.delete)
    table.add(store_api.TRANSCRIPT, conversations.transcript)
    table.add(store_api.GET_TURN, sessions.get_turn)
    table.add(store_api.BEGIN_DELIVERY, deliveries.begin)
    table.add(store_api.FINISH_DELIVERY, deliveries.finish, lambda _, request: request.delivery_id.split(".")[0])
    table.add(store_api.PUT_MEDIA, media.put)
    table.add(store_api.GET_MEDIA, media.get)
    table.add(store_api.GET_LOGIN, logins.get)
    table.add(store_api.PUT_LOGIN, logins.put)
    table.add(store_api.RECORD_USAGE, ledger.record)
    table.add(store_api.SPENT, ledger.spent)
    table.add(store_api.PROFILE_SPEND, ledger.by_profile)
    return table.handlers


def _add_approvals(table: Table, database: Database) -> None:
    """Add what people decide."""
    desk, grants = ApprovalDesk(database), GrantBook(database)
    table.add(store_api.ASK_APPROVAL, desk.ask, lambda caller, _: caller.sid)
    table.add(store_api.GET_APPROVAL, desk.get)
    table.add(store_api.LIST_APPROVALS, desk.list)
    table.add(store_api.ANSWER_APPROVAL, desk.answer, lambda _, request: request.sid)
    table.add(store_api.LIST_GRANTS, grants.list)
    table.add(store_api.REVOKE_GRANT, grants.revoke)


def _add_people(table: Table, database: Database) -> None:
    """Add who is let into chat accounts."""
    pairings = PairingBook(database)
    table.add(store_api.REQUEST_PAIRING, pairings.request)
    table.add(store_api.APPROVE_PAIRING, pairings.approve)
    table.add(store_api.PAIRED, pairings.paired)
    table.add(store_api.REVOKE_PAIRING, pairings.revoke)
    table.add(store_api.LIST_PAIRINGS, pairings.list)


def _add_fleet(table: Table, database: Database) -> None:
    """Add what the operator asks about all sessions."""
    epochs, namespaces = Epochs(database), Namespaces(database)
    table.add(store_api.RAISE_EPOCH, epochs.raise_epoch)
    table.add(store_api.SUMMARIES, epochs.summaries)
    table.add(store_api.PURGE, epochs.purge)
    table.add(store_api.CRON_TURNS, CronRuns(database).turns)
    table.add(store_api.SESSION_NAMESPACES, namespaces.names)
    table.add(store_api.GONE_NAMESPACES, namespaces.gone)


async def _hint_control(bus: Client, sid: str) -> None:
    # A hint may be lost: agents also look when a turn starts and after a reconnect.
    with contextlib.suppress(NatsError):
        await bus.publish(subjects.control(sid), ControlHint().model_dump_json().encode())
