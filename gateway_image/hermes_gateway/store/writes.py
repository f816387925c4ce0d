"""The SQL that every write of a step shares: guarded by what was found under the session's lock, in the same statement.

A statement begins with `STEP_IF_ALLOWED`, whose `allowed` has one row when the caller's epoch is the session's, its turn is
open and the step is not written, and none otherwise; everything else is written `from allowed`. It ends by returning `here`,
what was found, from which the caller's answer or error is decided. So a write is one round trip: lock, this, commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import LiteralString

from hermes_contracts.conversation import Message, Role, Usage
from hermes_contracts.store_api import JournalEntry
from hermes_gateway.store.answers import storable
from hermes_gateway.store.usage import ADD_USAGE, USAGE_COLUMNS, USAGE_VALUES

LOCK_SESSION = "select epoch, key, namespace, last_sequence from sessions where sid = %s for update"
"""A statement of its own: what follows it sees everything that was committed before the lock was given."""

STEP_IF_ALLOWED: LiteralString = """
with here as (
    select s.epoch, s.last_sequence as after, t.state, t.cid, w.last_sequence as written
    from (values (1)) one left join sessions s on s.sid = %(sid)s
    left join turns t on t.sid = s.sid and t.turn_id = %(turn_id)s
    left join steps w on w.sid = t.sid and w.turn_id = t.turn_id and w.step = %(step)s
), allowed as (
    select after, cid from here where epoch = %(epoch)s and state in ('received', 'running') and written is null
)
"""
WRITE_STEP: LiteralString = f"""
, step as (
    insert into steps (sid, turn_id, step, last_sequence, {USAGE_COLUMNS})
    select %(sid)s, %(turn_id)s, %(step)s, after + %(count)s, {USAGE_VALUES} from allowed
)
"""
WRITE_MESSAGES: LiteralString = """
, said as (
    insert into messages (sid, sequence, cid, turn_id, step, body)
    select %(sid)s, after + place, cid, %(turn_id)s, %(step)s, body
    from allowed, unnest(%(bodies)b::text[]) with ordinality as new(body, place)
), measured as (
    update conversations c set context_tokens = %(context_tokens)s, context_sequence = after + %(context_place)s
    from allowed where c.sid = %(sid)s and c.cid = allowed.cid and %(context_tokens)s > 0
)
"""
WRITE_JOURNAL: LiteralString = """
, noted as (
    insert into journal (sid, turn_id, call_id, tool, state, step, ordinal)
    select %(sid)s, %(turn_id)s, call_id, tool, state, %(step)s, place
    from allowed, unnest(%(calls)b::text[], %(tools)b::text[], %(states)b::text[])
        with ordinality as new(call_id, tool, state, place)
    on conflict (sid, turn_id, call_id) do update set state = 'finished' where excluded.state = 'finished'
)
"""
TELL_IF_ALLOWED: LiteralString = """
insert into outbox (sid, turn_id, final, subject, payload)
select %(sid)s, %(turn_id)s, final, subject, payload
from allowed, unnest(%(finals)b::boolean[], %(subjects)b::text[], %(payloads)b::text[])
    with ordinality as new(final, subject, payload, place)
order by place
"""
COUNT: LiteralString = f"""
update sessions set last_sequence = after + %(count)s, last_activity = now(), {ADD_USAGE}
"""


def step_values(
    sid: str, epoch: int, turn_id: str, step: int, messages: Sequence[Message], usage: Usage, context_tokens: int = 0
) -> dict[str, object]:
    """Return the arguments of the pieces above, but for the journal's and the outbox rows'."""
    return {
        "sid": sid,
        "epoch": epoch,
        "turn_id": turn_id,
        "step": step,
        "count": len(messages),
        "bodies": [message.model_dump_json() for message in messages],
        "context_tokens": context_tokens,
        "context_place": measured_place(messages),
        **usage.model_dump(),
    }


def measured_place(messages: Sequence[Message]) -> int:
    """Say how many of a step's messages its provider has counted: up to the last that the model wrote."""
    written = [place for place, message in enumerate(messages, 1) if message.role is Role.ASSISTANT]
    return written[-1] if written else len(messages)


def journal_values(journal: Iterable[JournalEntry]) -> dict[str, object]:
    """Return the arguments of `WRITE_JOURNAL`: one row a call, the later of "started" and "finished"."""
    last = {storable(entry.call_id): entry for entry in journal}
    return {
        "calls": list(last),
        "tools": [storable(entry.tool) for entry in last.values()],
        "states": [entry.state for entry in last.values()],
    }
