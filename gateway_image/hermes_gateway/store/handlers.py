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
from hermes_gateway.store.choices import Choices
from hermes_gateway.store.commands import Commands
from hermes_gateway.store.compactions import Compactions
from hermes_gateway.store.conversations import Conversations
from hermes_gateway.store.cron import CronRuns
from hermes_gateway.store.database import Database
from hermes_gateway.store.deliveries import Deliveries
from hermes_gateway.store.epochs import Epochs
from hermes_gateway.store.files import Files
from hermes_gateway.store.grants import GrantBook
from hermes_gateway.store.homes import HomeBook
from hermes_gateway.store.known import KnownTurns
from hermes_gateway.store.links import LinkBook
from hermes_gateway.store.logins import Logins
from hermes_gateway.store.media import Media
from hermes_gateway.store.namespaces import Namespaces
from hermes_gateway.store.pairings import PairingBook
from hermes_gateway.store.people_record import PeopleRecords
from hermes_gateway.store.relay import Relay
from hermes_gateway.store.sessions import Sessions
from hermes_gateway.store.steps import Steps
from hermes_gateway.store.turns import Turns
from hermes_gateway.store.undo import Undoing
from hermes_gateway.store.usage import UsageLedger
from hermes_gateway.store.workspaces.pieces import Pieces
from hermes_gateway.store.workspaces.shelf import Shelf
from hermes_gateway.store.workspaces.snapshots import Snapshots
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


def build_handlers(database: Database, relay: Relay, bus: Client, shelf: Shelf) -> dict[str, Handler]:
    """Return every method of the store."""
    table = Table(relay)
    known = KnownTurns(database)
    turns, steps = Turns(database, known), Steps(database, known)
    conversations, sessions = Conversations(database), Sessions(database)
    commands, deliveries = Commands(database), Deliveries(database)
    ledger, logins = UsageLedger(database), Logins(database)

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
    _add_workspaces(table, database, shelf)
    table.add(store_api.WAITING_COMMANDS, commands.waiting)
    table.add(store_api.BURY, turns.bury, lambda _, request: request.inbound.sid)
    table.add(store_api.PUT_COMMAND, put_command)
    table.add(store_api.CREATE_SESSION, sessions.create)
    table.add(store_api.GET_SESSION, sessions.get)
    table.add(store_api.LIST_SESSIONS, sessions.list)
    table.add(store_api.DELETE_SESSION, sessions.delete)
    table.add(store_api.TRANSCRIPT, conversations.transcript)
    table.add(store_api.GET_TURN, sessions.get_turn)
    _add_conversations(table, database)
    table.add(store_api.BEGIN_DELIVERY, deliveries.begin)
    table.add(store_api.FINISH_DELIVERY, deliveries.finish, lambda _, request: request.delivery_id.split(".")[0])
    _add_files_and_homes(table, database)
    table.add(store_api.GET_LOGIN, logins.get)
    table.add(store_api.PUT_LOGIN, logins.put)
    table.add(store_api.RECORD_USAGE, ledger.record)
    table.add(store_api.SPENT, ledger.spent)
    table.add(store_api.PROFILE_SPEND, ledger.by_profile)
    return table.handlers


def _add_files_and_homes(table: Table, database: Database) -> None:
    """Add what goes with messages and answers, and where those go that have no other place."""
    media, files, homes = Media(database), Files(database), HomeBook(database)
    table.add(store_api.PUT_MEDIA, media.put)
    table.add(store_api.GET_MEDIA, media.get)
    table.add(store_api.DESCRIBE_MEDIA, media.describe)
    table.add(store_api.DESCRIPTIONS, media.descriptions)
    table.add(store_api.OFFER_FILE, files.offer)
    table.add(store_api.GET_FILE, files.get)
    table.add(store_api.LIST_FILES, files.list)
    table.add(store_api.SET_HOME, homes.set)
    table.add(store_api.LIST_HOMES, homes.list)
    table.add(store_api.FIND_HOME, homes.find)


def _add_conversations(table: Table, database: Database) -> None:
    """Add what people do with whole conversations."""
    choices = Choices(database)
    table.add(store_api.CONVERSATION, choices.conversation)
    table.add(store_api.LIST_CONVERSATIONS, choices.list)
    table.add(store_api.UNDO, Undoing(database).undo)


def _add_approvals(table: Table, database: Database) -> None:
    """Add what people decide."""
    desk, grants = ApprovalDesk(database), GrantBook(database)
    table.add(store_api.ASK_APPROVAL, desk.ask, lambda caller, _: caller.sid)
    table.add(store_api.GET_APPROVAL, desk.get)
    table.add(store_api.LIST_APPROVALS, desk.list)
    table.add(store_api.ANSWER_APPROVAL, desk.answer, lambda _, request: request.sid)
    table.add(store_api.LIST_GRANTS, grants.list)
    table.add(store_api.REVOKE_GRANT, grants.revoke)


def _add_workspaces(table: Table, database: Database, shelf: Shelf) -> None:
    """Add what keeps the files of sessions that sleep."""
    pieces, snapshots = Pieces(database, shelf), Snapshots(database)
    table.add(store_api.WORKSPACE_STATE, snapshots.state)
    table.add(store_api.OPEN_WORKSPACE, snapshots.open)
    table.add(store_api.COMMIT_SNAPSHOT, snapshots.commit)
    table.add(store_api.CLAIM_PIECES, pieces.claim)
    table.add(store_api.PUT_PIECE, pieces.put)
    table.add(store_api.GET_PIECE, pieces.get)


def _add_people(table: Table, database: Database) -> None:
    """Add who is let into chat accounts, who is one with whom, and the record of it."""
    pairings, links = PairingBook(database), LinkBook(database)
    table.add(store_api.REQUEST_LINK, links.request)
    table.add(store_api.CONFIRM_LINK, links.confirm)
    table.add(store_api.LINKS, links.links)
    table.add(store_api.UNLINK, links.unlink)
    table.add(store_api.PEOPLE_RECORD, PeopleRecords(database).read)
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
