"""What leaves the store after a commit, as rows: durable events, dead letters. Pure but for the clock."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import LiteralString

from hermes_contracts import subjects
from hermes_contracts.conversation import Usage
from hermes_contracts.envelopes import Event, EventType, Inbound, OutFile
from hermes_contracts.store_api import JournalEntry
from hermes_gateway.store.answers import bound_reply

_TOOL_CHARACTERS = 200


@dataclass(frozen=True)
class OutboxRow:
    """One message to publish. `final` ones go again when the message of a settled turn comes again."""

    subject: str
    payload: str
    final: bool = False


@dataclass(frozen=True)
class TurnFacts:
    """What every event of a turn names."""

    sid: str
    turn_id: str
    conversation: str
    account: str
    update_id: str

    @classmethod
    def of(cls, inbound: Inbound, turn_id: str) -> TurnFacts:
        """Take them from the inbound message."""
        return cls(inbound.sid, turn_id, inbound.conversation, inbound.account, inbound.update_id)


def event_row(facts: TurnFacts, kind: EventType, data: dict[str, object], *, final: bool = False) -> OutboxRow:
    """Build the row of one event."""
    event = Event(
        sid=facts.sid,
        type=kind,
        conversation=facts.conversation,
        turn_id=facts.turn_id,
        account=facts.account,
        update_id=facts.update_id,
        at=time.time(),
        data=data,
    )
    return OutboxRow(subjects.event(facts.sid), event.model_dump_json(), final)


def journal_rows(facts: TurnFacts, journal: Iterable[JournalEntry]) -> list[OutboxRow]:
    """Build the events of a step's tool calls."""
    return [
        event_row(
            facts,
            EventType.TOOL_STARTED if entry.state == "started" else EventType.TOOL_FINISHED,
            {"call_id": entry.call_id[:_TOOL_CHARACTERS], "tool": entry.tool[:_TOOL_CHARACTERS]},
        )
        for entry in journal
    ]


def outcome_row(
    facts: TurnFacts, kind: EventType, reply: str, reason: str, usage: Usage, files: tuple[OutFile, ...] = ()
) -> OutboxRow:
    """Build the event that ends a turn: `reply` (bounded), `truncated`, `reason`, `usage`, and `files` if there are some."""
    text, truncated = bound_reply(reply)
    data: dict[str, object] = {"reply": text, "truncated": truncated, "reason": reason}
    if files:
        data["files"] = [file.model_dump(exclude={"media_id"}) for file in files]
    data["usage"] = usage.model_dump()
    return event_row(facts, kind, data, final=True)


@dataclass(frozen=True)
class OpenOutcome:
    """The event that ends a turn, as text around the JSON of its usage, which is added up when it is written."""

    subject: str
    head: str
    tail: str


def open_outcome(facts: TurnFacts, kind: EventType, reply: str, reason: str, files: tuple[OutFile, ...] = ()) -> OpenOutcome:
    """Build it; `outcome_row` is the same with a usage that is known."""
    row = outcome_row(facts, kind, reply, reason, Usage(), files)
    usage = json.dumps(Usage().model_dump(), separators=(",", ":"))
    head, _, tail = row.payload.rpartition(usage)
    return OpenOutcome(row.subject, head, tail)


def dead_row(inbound: Inbound, reason: str) -> OutboxRow:
    """Build the dead letter of a message: the inbound record as it came, and why it was given up."""
    payload = (
        f'{{"version":1,"reason":{json.dumps(reason[:500], ensure_ascii=False)},"inbound":{inbound.model_dump_json()}}}'
    )
    return OutboxRow(subjects.dead(inbound.sid), payload, True)


TELL: LiteralString = """
insert into outbox (sid, turn_id, final, subject, payload)
select %(sid)s, %(turn_id)s, final, subject, payload
from unnest(%(finals)b::boolean[], %(subjects)b::text[], %(payloads)b::text[])
    with ordinality as new(final, subject, payload, place)
order by place
"""
"""Writes outbox rows; part of a larger statement, whose writer holds the session's row lock. See `tell`."""


def tell(rows: list[OutboxRow]) -> dict[str, object]:
    """Return the arguments of `TELL` beside `sid` and `turn_id`."""
    return {
        "finals": [row.final for row in rows],
        "subjects": [row.subject for row in rows],
        "payloads": [row.payload for row in rows],
    }
