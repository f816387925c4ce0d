"""A conversation begins anew: its old messages stay for people, the agent's transcript starts at their copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from hermes_contracts.envelopes import EventType
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import MAX_COMPACTED_BYTES, CompactReply, CompactRequest
from hermes_gateway.store import rules
from hermes_gateway.store.conversations import MAX_PROMPT_BYTES
from hermes_gateway.store.database import Database, Row, Scope, Statement, Transaction
from hermes_gateway.store.known import KnownTurns
from hermes_gateway.store.outbox import TurnFacts, event_row, journal_rows, tell
from hermes_gateway.store.rules import FoundCompaction, decide_compaction
from hermes_gateway.store.usage import USAGE_COLUMNS, USAGE_VALUES
from hermes_gateway.store.writes import (
    COUNT,
    LOCK_SESSION,
    TELL_IF_ALLOWED,
    WRITE_JOURNAL,
    journal_values,
    step_values,
)
from hermes_service.rpc import Caller

_COMMAND = "select account, update_id from commands where sid = %s and command_id = %s and kind = 'compress'"

# Guarded as in `writes`. Its turn may be a person's command to compact, which is open while it has no result.
_COMPACT: LiteralString = f"""
with here as (
    select s.epoch, s.last_sequence as after, t.cid as turn_conversation, w.last_sequence as step_written,
        coalesce(t.state, case when k.command_id is null then null when k.result is null then 'running' else 'done' end)
            as state,
        c.cid, c.compactions, c.prompt, done.number as done_number, done.last_sequence as done_sequence
    from (values (1)) one left join sessions s on s.sid = %(sid)s
    left join turns t on t.sid = s.sid and t.turn_id = %(turn_id)s
    left join commands k on k.sid = s.sid and k.command_id = %(turn_id)s and k.kind = 'compress'
    left join steps w on w.sid = s.sid and w.turn_id = %(turn_id)s and w.step = %(step)s
    left join conversations c on c.sid = s.sid and c.cid = %(cid)s
    left join compactions done on done.sid = s.sid and done.turn_id = %(turn_id)s and done.step = %(step)s
), allowed as (
    select after, cid, prompt, turn_conversation from here
    where epoch = %(epoch)s and state in ('received', 'running') and step_written is null and done_number is null
        and compactions = %(expected)s and coalesce(turn_conversation, cid) = cid
), step as (
    insert into steps (sid, turn_id, step, last_sequence, {USAGE_COLUMNS})
    select %(sid)s, %(turn_id)s, %(step)s, after + %(count)s, {USAGE_VALUES} from allowed
    where turn_conversation is not null
), said as (
    insert into messages (sid, sequence, cid, turn_id, step, body, copied)
    select %(sid)s, after + place, cid, %(turn_id)s, %(step)s, body, place <> %(summary_place)s
    from allowed, unnest(%(bodies)b::text[]) with ordinality as new(body, place)
), lineage as (
    insert into compactions (sid, cid, number, turn_id, step, old_prompt, tokens_before, tokens_after,
        first_sequence, summary_sequence, last_sequence)
    select %(sid)s, cid, %(expected)s + 1, %(turn_id)s, %(step)s, nullif(prompt, %(prompt)s), %(tokens_before)s,
        %(tokens_after)s, after + 1, after + %(summary_place)s, after + %(count)s from allowed
), begun as (
    update conversations c set prompt = %(prompt)s, begins_after = after, compactions = c.compactions + 1,
        context_tokens = 0, context_sequence = 0
    from allowed where c.sid = %(sid)s and c.cid = allowed.cid
), told as ({TELL_IF_ALLOWED}), counted as ({COUNT} from allowed where sid = %(sid)s)
"""
_WRITE: LiteralString = (
    f"{_COMPACT}{WRITE_JOURNAL} "
    "select epoch, after, state, turn_conversation, step_written, compactions, done_number, done_sequence from here"
)


@dataclass(frozen=True)
class Compactions:
    """Handler of `compact`."""

    database: Database
    known: KnownTurns

    async def compact(self, caller: Caller, request: CompactRequest) -> CompactReply:
        """Write the new beginning of a conversation, as a step. A repeated call answers as the first one did."""
        prompt = _checked_prompt(request)
        facts = await self._facts(caller.sid, request)
        write = _compact(caller, request, prompt, facts)

        async def work(transaction: Transaction) -> Row:
            _, (found,) = await transaction.commit((LOCK_SESSION, (caller.sid,)), write)
            return found

        found = await self.database.run(Scope(sid=caller.sid), work)
        rules.require_epoch(found.pop("epoch"), caller.sid, caller.epoch)
        after = found.pop("after")
        done = decide_compaction(FoundCompaction(**found), request)
        return done or CompactReply(sequence=after + len(request.messages), compactions=request.expected + 1)

    async def _facts(self, sid: str, request: CompactRequest) -> TurnFacts:
        """Name whose event it is. A turn or command that is not there has none, and nothing will be written."""
        known = await self.known.get(sid, request.turn_id)
        if known is not None:
            return known.facts

        async def work(transaction: Transaction) -> TurnFacts:
            (rows,) = await transaction.commit((_COMMAND, (sid, request.turn_id)))
            account, update_id = (rows[0]["account"], rows[0]["update_id"]) if rows else ("", "")
            return TurnFacts(sid, request.turn_id, request.conversation, account, update_id)

        return await self.database.run(Scope(sid=sid), work)


def _checked_prompt(request: CompactRequest) -> str:
    """Return the prompt's text. Raises INVALID or TOO_LARGE for what cannot be a conversation's beginning."""
    if request.summary_index >= len(request.messages):
        raise HermesError(
            ErrorCode.INVALID,
            f"compact: summary_index {request.summary_index} names none of the {len(request.messages)} messages",
        )
    size = sum(len(message.model_dump_json().encode()) for message in request.messages)
    if size > MAX_COMPACTED_BYTES:
        raise HermesError(
            ErrorCode.TOO_LARGE, f"compact: messages are {size} bytes and may be {MAX_COMPACTED_BYTES}; keep less of them"
        )
    prompt = request.prompt.model_dump_json()
    if len(prompt.encode()) > MAX_PROMPT_BYTES:
        raise HermesError(ErrorCode.TOO_LARGE, f"compact: prompt is over {MAX_PROMPT_BYTES} bytes; shorten it")
    return prompt


def _compact(caller: Caller, request: CompactRequest, prompt: str, facts: TurnFacts) -> Statement:
    data: dict[str, object] = {
        "compactions": request.expected + 1,
        "tokens_before": request.tokens_before,
        "tokens_after": request.tokens_after,
    }
    rows = [*journal_rows(facts, request.journal), event_row(facts, EventType.CONVERSATION_COMPACTED, data)]
    values: dict[str, object] = {
        "cid": request.conversation,
        "expected": request.expected,
        "prompt": prompt,
        "summary_place": request.summary_index + 1,
        "tokens_before": request.tokens_before,
        "tokens_after": request.tokens_after,
    }
    step = step_values(caller.sid, caller.epoch, request.turn_id, request.step, request.messages, request.usage)
    return (_WRITE, {**step, **values, **journal_values(request.journal), **tell(rows)})
