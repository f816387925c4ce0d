"""Opens turns, gives messages up. Both lock the session's row first, so one session's turns change one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from hermes_contracts.conversation import Usage
from hermes_contracts.envelopes import EventType, Inbound
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import RoutingKey
from hermes_contracts.store_api import (
    SETTLED,
    BuryRequest,
    Empty,
    JournalEntry,
    OpenTurnReply,
    OpenTurnRequest,
    TurnState,
)  # fmt: skip
from hermes_gateway.store import rules
from hermes_gateway.store.answers import storable
from hermes_gateway.store.database import Database, Row, Scope, Statement, Transaction
from hermes_gateway.store.deliveries import EXPECT_DELIVERIES
from hermes_gateway.store.known import KnownTurns
from hermes_gateway.store.outbox import TELL, TurnFacts, dead_row, event_row, outcome_row, tell
from hermes_gateway.store.people_record import sender_statements
from hermes_gateway.store.places import KnownTurn, Parts, parts_of
from hermes_gateway.store.rules import FoundTurn, Opening
from hermes_gateway.store.usage import USAGE_COLUMNS
from hermes_gateway.store.writes import LOCK_SESSION, TELL_IF_ALLOWED
from hermes_service.rpc import Caller

_FIND_TURN = """
select turn_id, state, attempt, epoch, ack_subject, handed_back,
    (select coalesce(max(step) + 1, 0) from steps
        where steps.sid = turns.sid and steps.turn_id = turns.turn_id) as next_step,
    (select json_agg(json_build_object('call_id', call_id, 'tool', tool, 'state', state) order by step, ordinal)
        from journal where journal.sid = turns.sid and journal.turn_id = turns.turn_id) as journal,
    coalesce((select undone from conversations c where c.sid = turns.sid and c.cid = turns.cid), 0) as undone,
    coalesce((select model from conversation_choices p where p.sid = turns.sid and p.cid = turns.cid), '') as model
from turns where sid = %s and channel = %s and account = %s and update_id = %s
"""

# Guarded like the writes of steps: see `writes`.
_OPEN: LiteralString = f"""
with here as (
    select s.epoch, s.key, s.namespace, s.last_sequence as after, t.turn_id as found, c.undone, p.model
    from (values (1)) one left join sessions s on s.sid = %(sid)s
    left join turns t on t.sid = s.sid
        and t.channel = %(channel)s and t.account = %(account)s and t.update_id = %(update_id)s
    left join conversations c on c.sid = s.sid and c.cid = %(cid)s
    left join conversation_choices p on p.sid = s.sid and p.cid = %(cid)s
), allowed as (
    select after, %(cid)s as cid from here where epoch = %(epoch)s and found is null
), opened as (
    insert into turns
        (sid, turn_id, cid, channel, account, update_id, state, attempt, epoch, ack_subject, stream_sequence, inbound)
    select %(sid)s, %(turn_id)s, %(cid)s, %(channel)s, %(account)s, %(update_id)s, 'running', 1, %(epoch)s,
        %(ack_subject)s, %(stream_sequence)s, %(inbound)s from allowed
), step as (
    insert into steps (sid, turn_id, step, last_sequence, {USAGE_COLUMNS})
    select %(sid)s, %(turn_id)s, 0, after + 1, 0, 0, 0, 0, 0, 0, 0, 0 from allowed where %(count)s > 0
), said as (
    insert into messages (sid, sequence, cid, turn_id, step, body)
    select %(sid)s, after + 1, cid, %(turn_id)s, 0, %(first)s from allowed where %(count)s > 0
), told as ({TELL_IF_ALLOWED}), counted as (
    update sessions set turns = turns + 1, last_activity = now(), last_sequence = after + %(count)s
    from allowed where sid = %(sid)s
)
select epoch, key, namespace, found, undone, model from here
"""

_RESUME_TURN = """
update turns set attempt = %s, epoch = %s, ack_subject = %s, stream_sequence = %s, handed_back = false, state = 'running'
where sid = %s and turn_id = %s
"""

_BURY: LiteralString = f"""
with buried as (
    update turns set state = 'dead', reply = %(reply)s, reason = %(reason)s, settled_at = now()
    where sid = %(sid)s and turn_id = %(turn_id)s
), expected as ({EXPECT_DELIVERIES}), told as ({TELL})
update sessions set last_activity = now(), last_error = %(reason)s where sid = %(sid)s
"""

_SEND_AGAIN = "update outbox set relayed_at = null where sid = %s and turn_id = %s and final and relayed_at is not null"


@dataclass(frozen=True)
class Turns:
    """Handlers of `open_turn` and `bury`."""

    database: Database
    known: KnownTurns

    async def open_turn(self, caller: Caller, request: OpenTurnRequest) -> OpenTurnReply:
        """Insert or get the turn of a message; count an attempt when its last holder died; give it up after too many."""
        inbound = request.inbound
        if inbound.sid != caller.sid:
            raise HermesError(ErrorCode.INVALID, "open_turn: inbound.sid is not the caller's session")

        turn_id = rules.turn_id(inbound.sid, inbound.channel, inbound.account, inbound.update_id)

        async def begin(transaction: Transaction) -> Row:
            opening = ((LOCK_SESSION, (caller.sid,)), _open(caller.epoch, request, turn_id))
            _, (found,), *_ = await transaction.commit(*opening, *sender_statements(inbound, caller.epoch))
            return found

        found = await self.database.run(Scope(sid=caller.sid), begin)
        rules.require_epoch(found["epoch"], caller.sid, caller.epoch)
        if found["found"] is not None:
            return await self._open_again(caller, request)
        self.known.remember(_known(inbound, turn_id, found))
        next_step = 0 if request.first is None else 1
        return OpenTurnReply(
            turn_id=turn_id,
            state=TurnState.RUNNING,
            attempt=1,
            next_step=next_step,
            undone=found["undone"] or 0,
            model=found["model"] or "",
        )

    async def _open_again(self, caller: Caller, request: OpenTurnRequest) -> OpenTurnReply:
        """Answer for a turn that is there, which is rare: read, decide, write."""
        inbound = request.inbound

        async def work(transaction: Transaction) -> OpenTurnReply:
            session, turn = await _lock_and_find(transaction, inbound)
            rules.require_epoch(session["epoch"] if session else None, caller.sid, caller.epoch)
            opening = rules.decide_opening(_found(turn), caller.epoch, request.ack_subject)
            reply = _reply(turn, inbound)
            if opening is Opening.NEW:
                raise HermesError(ErrorCode.UNAVAILABLE, "the session was purged at this moment", retryable=True)
            if opening is Opening.SETTLED:
                await transaction.commit((_SEND_AGAIN, (inbound.sid, reply.turn_id)))
            elif opening is Opening.GIVEN_UP and session is not None:
                await transaction.commit(_bury(session, inbound, reply.turn_id, rules.REASON_ATTEMPTS))
                reply = reply.model_copy(update={"state": TurnState.DEAD})
            else:
                attempt = reply.attempt + (opening is Opening.RESUMED)
                reply = reply.model_copy(update={"attempt": attempt})
                await transaction.commit(_resume(caller, request, reply))
            return reply

        return await self.database.run(Scope(sid=caller.sid), work)

    async def bury(self, _: Caller, request: BuryRequest) -> Empty:
        """Give a message up for the operator: dead turn, dead letter, a sentence for the person. Harmless when settled."""
        inbound = request.inbound

        async def work(transaction: Transaction) -> Empty:
            session, turn = await _lock_and_find(transaction, inbound)
            if session is None:
                raise HermesError(ErrorCode.NOT_FOUND, f"session {inbound.sid} is not in the store: raise its epoch first")
            reply = _reply(turn, inbound)
            if turn is not None and reply.state in SETTLED:
                await transaction.commit((_SEND_AGAIN, (inbound.sid, reply.turn_id)))
                return Empty()
            new = OpenTurnRequest(inbound=inbound, ack_subject="", stream_sequence=0)
            opening = [] if turn else [_open(session["epoch"], new, reply.turn_id)]
            await transaction.commit(*opening, _bury(session, inbound, reply.turn_id, request.reason))
            return Empty()

        return await self.database.run(Scope(sid=inbound.sid), work)


async def _lock_and_find(transaction: Transaction, inbound: Inbound) -> tuple[Row | None, Row | None]:
    sessions, turns = await transaction.ask(
        (LOCK_SESSION, (inbound.sid,)),
        (_FIND_TURN, (inbound.sid, storable(inbound.channel), storable(inbound.account), storable(inbound.update_id))),
    )
    return (sessions[0] if sessions else None), (turns[0] if turns else None)


def _found(turn: Row | None) -> FoundTurn | None:
    if turn is None:
        return None
    return FoundTurn(
        TurnState(turn["state"]), turn["attempt"], turn["epoch"], turn["ack_subject"], handed_back=turn["handed_back"]
    )


def _reply(turn: Row | None, inbound: Inbound) -> OpenTurnReply:
    """Return the answer as if the turn went on unchanged; a missing one as if it were new."""
    if turn is None:
        name = rules.turn_id(inbound.sid, inbound.channel, inbound.account, inbound.update_id)
        return OpenTurnReply(turn_id=name, state=TurnState.RUNNING, attempt=1, next_step=0)
    state = TurnState(turn["state"])
    return OpenTurnReply(
        turn_id=turn["turn_id"],
        state=state if state in SETTLED else TurnState.RUNNING,
        attempt=turn["attempt"],
        next_step=turn["next_step"],
        journal=tuple(JournalEntry(**entry) for entry in turn["journal"] or ()),
        undone=turn["undone"],
        model=turn["model"],
    )


def _open(epoch: int, request: OpenTurnRequest, turn_id: str) -> Statement:
    inbound = request.inbound
    started = event_row(TurnFacts.of(inbound, turn_id), EventType.TURN_STARTED, {"channel": inbound.channel})
    return (
        _OPEN,
        {
            "sid": inbound.sid,
            "turn_id": turn_id,
            "cid": inbound.conversation,
            "channel": storable(inbound.channel),
            "account": storable(inbound.account),
            "update_id": storable(inbound.update_id),
            "epoch": epoch,
            "ack_subject": storable(request.ack_subject),
            "stream_sequence": request.stream_sequence,
            "inbound": inbound.model_dump_json(),
            "count": 0 if request.first is None else 1,
            "first": "" if request.first is None else request.first.model_dump_json(),
            **tell([started]),
        },
    )


def _resume(caller: Caller, request: OpenTurnRequest, reply: OpenTurnReply) -> Statement:
    ack_subject, sequence = storable(request.ack_subject), request.stream_sequence
    return (_RESUME_TURN, (reply.attempt, caller.epoch, ack_subject, sequence, caller.sid, reply.turn_id))


def _bury(session: Row, inbound: Inbound, turn_id: str, reason: str) -> Statement:
    facts = TurnFacts.of(inbound, turn_id)
    sentence, reason = rules.given_up(reason), storable(reason[:500])
    # Who deletes a scheduled run means it: nobody is told.
    parts = Parts() if reason == rules.REASON_DELETED else parts_of(_known(inbound, turn_id, session), sentence)
    rows = [
        dead_row(inbound, reason),
        outcome_row(facts, EventType.TURN_DEAD, sentence, reason[:64], Usage()),
        *parts.rows,
    ]
    values: dict[str, object] = {"sid": inbound.sid, "turn_id": turn_id, "reply": sentence, "reason": reason}
    return (_BURY, {**values, **parts.values(), **tell(rows)})


def _known(inbound: Inbound, turn_id: str, session: Row) -> KnownTurn:
    """Take a turn's facts from its message and its session's row."""
    key = RoutingKey.model_validate(session["key"])
    facts, namespace = TurnFacts.of(inbound, turn_id), session["namespace"]
    return KnownTurn(facts, inbound.channel, key, namespace, inbound.run, inbound.reply_to, inbound.deliver)
