"""Writes the steps of a turn, the last one included. Unique on (turn, step): a repeated write answers as the first did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from hermes_contracts.envelopes import EventType, OutFile
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    SETTLED,
    AppendReply,
    AppendRequest,
    CommitRequest,
    Empty,
    TurnState,
)  # fmt: skip
from hermes_gateway.store import rules
from hermes_gateway.store.answers import storable
from hermes_gateway.store.database import Database, Row, Scope, Statement, Transaction
from hermes_gateway.store.files import OF_TURN, stored_file
from hermes_gateway.store.known import KnownTurns
from hermes_gateway.store.outbox import journal_rows, open_outcome, tell
from hermes_gateway.store.places import KnownTurn, Parts, parts_of
from hermes_gateway.store.usage import ADD_UP_USAGE
from hermes_gateway.store.writes import (
    COUNT,
    LOCK_SESSION,
    STEP_IF_ALLOWED,
    TELL_IF_ALLOWED,
    WRITE_JOURNAL,
    WRITE_MESSAGES,
    WRITE_STEP,
    journal_values,
    step_values,
)
from hermes_service.rpc import Caller

_LOOK: LiteralString = f"{STEP_IF_ALLOWED} select * from here"
_APPEND: LiteralString = f"""{STEP_IF_ALLOWED}{WRITE_STEP}{WRITE_MESSAGES}{WRITE_JOURNAL}
, told as ({TELL_IF_ALLOWED}), counted as ({COUNT} from allowed where sid = %(sid)s)
select * from here
"""
# The outcome's event holds the usage of the whole turn, which only the database can add up: its payload is finished here.
_COMMIT: LiteralString = f"""{STEP_IF_ALLOWED}{WRITE_STEP}{WRITE_MESSAGES}
, total as (
    select {ADD_UP_USAGE} from allowed left join steps on steps.sid = %(sid)s and steps.turn_id = %(turn_id)s
    having count(allowed.after) > 0
), settled as (
    update turns set state = %(outcome)s, reply = %(reply)s, reason = %(reason)s, settled_at = now(),
        input_tokens = total.input_tokens, output_tokens = total.output_tokens,
        cached_input_tokens = total.cached_input_tokens, cache_write_tokens = total.cache_write_tokens,
        reasoning_tokens = total.reasoning_tokens, model_calls = total.model_calls,
        unpriced_calls = total.unpriced_calls, cost_nano_usd = total.cost_nano_usd
    from total where sid = %(sid)s and turn_id = %(turn_id)s
), told as (
    insert into outbox (sid, turn_id, final, subject, payload)
    select %(sid)s, %(turn_id)s, true, subject, payload from (
        select 0 as place, %(event_subject)s as subject, %(event_head)s || row_to_json(total) || %(event_tail)s as payload
        from total
        union all select place, subject, payload from allowed,
            unnest(%(subjects)b::text[], %(payloads)b::text[]) with ordinality as new(subject, payload, place)
    ) rows order by place
), expected as (
    insert into deliveries (sid, turn_id, target, part, parts)
    select %(sid)s, %(turn_id)s, target, part, parts from allowed,
        unnest(%(targets)b::integer[], %(counts)b::integer[]) as new(target, parts), generate_series(1, parts) part
), counted as ({COUNT}, last_error = %(error)s from allowed where sid = %(sid)s)
select * from here
"""


@dataclass(frozen=True)
class Steps:
    """Handlers of `append` and `commit`."""

    database: Database
    known: KnownTurns

    async def append(self, caller: Caller, request: AppendRequest) -> AppendReply:
        """Write one step's messages and journal, in one transaction under the session's row lock."""
        known = await self.known.get(caller.sid, request.turn_id)
        found = await self._write(caller, request, _append(caller, request, known) if known else None)
        if found["written"] is not None:
            return AppendReply(sequence=found["written"])
        return AppendReply(sequence=found["after"] + len(request.messages))

    async def commit(self, caller: Caller, request: CommitRequest) -> Empty:
        """Write the last step and everything that makes the turn's outcome true, in one transaction."""
        known = await self.known.get(caller.sid, request.turn_id)
        files = await self._files(caller, request.turn_id) if request.files else ()
        found = await self._write(caller, request, _commit(caller, request, known, files) if known else None)
        if found["written"] is not None and TurnState(found["state"]) not in SETTLED:
            raise HermesError(
                ErrorCode.CONFLICT, f"step {request.step} was appended already: commit the turn at the next step"
            )
        return Empty()

    async def _files(self, caller: Caller, turn_id: str) -> tuple[OutFile, ...]:
        """Return what was offered in a turn. Only its own agent offers, and that one commits now."""

        async def work(transaction: Transaction) -> tuple[OutFile, ...]:
            (rows,) = await transaction.commit((OF_TURN, (caller.sid, turn_id)))
            return tuple(stored_file(row).file for row in rows)

        return await self.database.run(Scope(sid=caller.sid), work)

    async def _write(self, caller: Caller, request: AppendRequest | CommitRequest, write: Statement | None) -> Row:
        """Try a write; returns what was there before it, or raises what forbade it. None: there is no such turn, say so."""
        look = {"sid": caller.sid, "epoch": caller.epoch, "turn_id": request.turn_id, "step": request.step}

        async def work(transaction: Transaction) -> Row:
            _, (found,) = await transaction.commit((LOCK_SESSION, (caller.sid,)), write or (_LOOK, look))
            return found

        found = await self.database.run(Scope(sid=caller.sid), work)
        rules.require_epoch(found["epoch"], caller.sid, caller.epoch)
        if found["written"] is None:
            rules.require_running(found["state"], request.turn_id)
            if write is None:
                raise HermesError(ErrorCode.UNAVAILABLE, "the turn was being opened at this moment", retryable=True)
        return found


def _append(caller: Caller, request: AppendRequest, known: KnownTurn) -> Statement:
    values = step_values(
        caller.sid, caller.epoch, request.turn_id, request.step, request.messages, request.usage, request.context_tokens
    )
    rows = journal_rows(known.facts, request.journal)
    return (_APPEND, {**values, **journal_values(request.journal), **tell(rows)})


def _commit(caller: Caller, request: CommitRequest, known: KnownTurn, files: tuple[OutFile, ...]) -> Statement:
    facts, reply, reason = known.facts, storable(request.reply), storable(request.reason)
    parts = Parts() if request.silent and known.run is not None else parts_of(known, reply, request.choices, files)
    kind = EventType.TURN_DONE if request.outcome == "done" else EventType.TURN_FAILED
    event = open_outcome(facts, kind, reply, reason, files)
    values: dict[str, object] = {
        "outcome": request.outcome,
        "reply": reply,
        "reason": reason,
        "error": "" if request.outcome == "done" else reason or "failed",
        **parts.values(),
        "event_subject": event.subject,
        "event_head": event.head,
        "event_tail": event.tail,
        "subjects": [row.subject for row in parts.rows],
        "payloads": [row.payload for row in parts.rows],
    }
    written = step_values(
        caller.sid, caller.epoch, request.turn_id, request.step, request.messages, request.usage, request.context_tokens
    )
    return (_COMMIT, {**written, **values})
