"""Writes the steps of a turn, the last one included. Unique on (turn, step): a repeated write answers as the first did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from hermes_contracts.envelopes import EventType, Inbound
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import RoutingKey
from hermes_contracts.store_api import (
    SETTLED,
    AppendReply,
    AppendRequest,
    CommitRequest,
    Empty,
    TurnState,
)  # fmt: skip
from hermes_gateway.store import rules
from hermes_gateway.store.answers import split_reply, storable
from hermes_gateway.store.database import Database, Row, Scope, Statement, Transaction
from hermes_gateway.store.deliveries import EXPECT_DELIVERIES
from hermes_gateway.store.outbox import TELL, TurnFacts, journal_rows, outcome_row, part_rows, tell
from hermes_gateway.store.turns import LOCK_SESSION
from hermes_gateway.store.usage import usage_of
from hermes_service.rpc import Caller

_FIND_STEP = """
select t.state, t.cid, t.account, t.update_id, s.last_sequence as written
from turns t left join steps s on s.sid = t.sid and s.turn_id = t.turn_id and s.step = %s
where t.sid = %s and t.turn_id = %s
"""
_FIND_FOR_COMMIT = """
select t.state, t.inbound, s.last_sequence as written, before.*
from turns t left join steps s on s.sid = t.sid and s.turn_id = t.turn_id and s.step = %s
cross join lateral (
    select coalesce(sum(input_tokens), 0)::bigint as input_tokens, coalesce(sum(output_tokens), 0)::bigint as output_tokens,
        coalesce(sum(cached_input_tokens), 0)::bigint as cached_input_tokens,
        coalesce(sum(reasoning_tokens), 0)::bigint as reasoning_tokens, coalesce(sum(model_calls), 0)::bigint as model_calls
    from steps where steps.sid = t.sid and steps.turn_id = t.turn_id
) before
where t.sid = %s and t.turn_id = %s
"""
_WRITE: LiteralString = f"""
with step as (
    insert into steps (sid, turn_id, step, last_sequence,
        input_tokens, output_tokens, cached_input_tokens, reasoning_tokens, model_calls)
    values (%(sid)s, %(turn_id)s, %(step)s, %(last)s,
        %(input_tokens)s, %(output_tokens)s, %(cached_input_tokens)s, %(reasoning_tokens)s, %(model_calls)s)
), said as (
    insert into messages (sid, sequence, cid, turn_id, step, body)
    select %(sid)s, %(after)s + place, %(cid)s, %(turn_id)s, %(step)s, body
    from unnest(%(bodies)s::text[]) with ordinality as new(body, place)
), told as ({TELL})
"""
_COUNT: LiteralString = """
update sessions set last_sequence = %(last)s, last_activity = now(),
    input_tokens = input_tokens + %(input_tokens)s, output_tokens = output_tokens + %(output_tokens)s,
    cached_input_tokens = cached_input_tokens + %(cached_input_tokens)s,
    reasoning_tokens = reasoning_tokens + %(reasoning_tokens)s, model_calls = model_calls + %(model_calls)s
"""
_APPEND: LiteralString = f"""{_WRITE}, noted as (
    insert into journal (sid, turn_id, call_id, tool, state, step, ordinal)
    select %(sid)s, %(turn_id)s, call_id, tool, state, %(step)s, place
    from unnest(%(calls)s::text[], %(tools)s::text[], %(states)s::text[]) with ordinality as new(call_id, tool, state, place)
    on conflict (sid, turn_id, call_id) do update set state = 'finished' where excluded.state = 'finished'
)
{_COUNT} where sid = %(sid)s
"""
_COMMIT: LiteralString = f"""{_WRITE}, settled as (
    update turns set state = %(outcome)s, reply = %(reply)s, reason = %(reason)s, settled_at = now(),
        input_tokens = %(all_input_tokens)s, output_tokens = %(all_output_tokens)s,
        cached_input_tokens = %(all_cached_input_tokens)s, reasoning_tokens = %(all_reasoning_tokens)s,
        model_calls = %(all_model_calls)s
    where sid = %(sid)s and turn_id = %(turn_id)s
), expected as ({EXPECT_DELIVERIES})
{_COUNT}, last_error = %(error)s where sid = %(sid)s
"""


@dataclass(frozen=True)
class Steps:
    """Handlers of `append` and `commit`."""

    database: Database

    async def append(self, caller: Caller, request: AppendRequest) -> AppendReply:
        """Write one step's messages and journal, in one transaction under the session's row lock."""

        async def work(transaction: Transaction) -> AppendReply:
            sessions, turns = await transaction.ask(
                (LOCK_SESSION, (caller.sid,)), (_FIND_STEP, (request.step, caller.sid, request.turn_id))
            )
            session, turn = _check(caller, request.turn_id, sessions, turns)
            if turn["written"] is not None:
                return AppendReply(sequence=turn["written"])
            facts = TurnFacts(caller.sid, request.turn_id, turn["cid"], turn["account"], turn["update_id"])
            await transaction.commit(_append(request, facts, session["last_sequence"]))
            return AppendReply(sequence=session["last_sequence"] + len(request.messages))

        return await self.database.run(Scope(sid=caller.sid), work)

    async def commit(self, caller: Caller, request: CommitRequest) -> Empty:
        """Write the last step and everything that makes the turn's outcome true, in one transaction."""

        async def work(transaction: Transaction) -> Empty:
            sessions, turns = await transaction.ask(
                (LOCK_SESSION, (caller.sid,)), (_FIND_FOR_COMMIT, (request.step, caller.sid, request.turn_id))
            )
            session, turn = _check(caller, request.turn_id, sessions, turns)
            if turn["written"] is None:
                await transaction.commit(_commit(request, session, turn))
            elif TurnState(turn["state"]) not in SETTLED:
                raise HermesError(
                    ErrorCode.CONFLICT, f"step {request.step} was appended already: commit the turn at the next step"
                )
            return Empty()

        return await self.database.run(Scope(sid=caller.sid), work)


def _check(caller: Caller, turn_id: str, sessions: list[Row], turns: list[Row]) -> tuple[Row, Row]:
    rules.require_epoch(sessions[0]["epoch"] if sessions else None, caller.sid, caller.epoch)
    turn = turns[0] if turns else None
    if turn is None or turn["written"] is None:
        rules.require_running(turn["state"] if turn else None, turn_id)
    assert turn is not None
    return sessions[0], turn


def _written(facts: TurnFacts, request: AppendRequest | CommitRequest, after: int) -> dict[str, object]:
    """Return the arguments of `_WRITE` and `_COUNT`, but for the outbox rows."""
    return {
        "sid": facts.sid,
        "turn_id": facts.turn_id,
        "cid": facts.conversation,
        "step": request.step,
        "after": after,
        "last": after + len(request.messages),
        "bodies": [message.model_dump_json() for message in request.messages],
        **request.usage.model_dump(),
    }


def _append(request: AppendRequest, facts: TurnFacts, after: int) -> Statement:
    # One row a call: "started" and "finished" of the same call in one step leave the later one.
    last = {storable(entry.call_id): entry for entry in request.journal}
    journal: dict[str, object] = {
        "calls": list(last),
        "tools": [storable(entry.tool) for entry in last.values()],
        "states": [entry.state for entry in last.values()],
    }
    return (_APPEND, {**_written(facts, request, after), **journal, **tell(journal_rows(facts, request.journal))})


def _commit(request: CommitRequest, session: Row, turn: Row) -> Statement:
    inbound = Inbound.model_validate_json(turn["inbound"])
    facts = TurnFacts.of(inbound, request.turn_id)
    reply, reason, usage = storable(request.reply), storable(request.reason), usage_of(turn) + request.usage
    parts = split_reply(inbound.channel, reply)
    kind = EventType.TURN_DONE if request.outcome == "done" else EventType.TURN_FAILED
    rows = [
        outcome_row(facts, kind, reply, reason, usage),
        *part_rows(facts, RoutingKey.model_validate(session["key"]), inbound.channel, parts),
    ]
    values: dict[str, object] = {
        "outcome": request.outcome,
        "reply": reply,
        "reason": reason,
        "error": "" if request.outcome == "done" else reason or "failed",
        "parts": len(parts),
        **{f"all_{name}": count for name, count in usage.model_dump().items()},
    }
    return (_COMMIT, {**_written(facts, request, session["last_sequence"]), **values, **tell(rows)})
