"""Records of parts on their way to a chat: begun before the call, ended after it, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from hermes_contracts.envelopes import EventType
from hermes_contracts.store_api import BeginDeliveryReply, BeginDeliveryRequest, Empty, FinishDeliveryRequest
from hermes_gateway.store.answers import storable
from hermes_gateway.store.database import Database, Row, Scope, Statement, Transaction
from hermes_gateway.store.outbox import TELL, TurnFacts, event_row, tell
from hermes_gateway.store.rules import DeliveryId, DeliveryStart, FoundDelivery, decide_delivery
from hermes_service.rpc import Caller

_FIND = """
select state, attempts, holder,
    (select before.state from deliveries before
        where before.sid = d.sid and before.turn_id = d.turn_id and before.target = d.target
            and before.part = d.part - 1) as previous
from deliveries d where sid = %s and turn_id = %s and target = %s and part = %s for update
"""
_BEGIN = """
update deliveries set state = 'attempting', attempts = %s, holder = %s, changed_at = now()
where sid = %s and turn_id = %s and target = %s and part = %s
"""
# What was delivered is true whoever says it; that it was not, only the present holder knows.
_DELIVERED = """
update deliveries set state = 'delivered', platform_message_id = %s, error = '', changed_at = now()
where sid = %s and turn_id = %s and target = %s and part = %s and state <> 'delivered'
"""
_RETRY = """
update deliveries set state = 'pending', error = %s, changed_at = now()
where sid = %s and turn_id = %s and target = %s and part = %s and state = 'attempting' and holder = %s
"""
_FAILED = """
update deliveries set state = 'failed', changed_at = now(),
    error = case when part = %s then %s else 'an earlier part could not be delivered' end
where sid = %s and turn_id = %s and target = %s and part >= %s and state <> 'delivered'
"""
_FIND_FAILING = """
select d.state, d.holder, d.attempts, t.cid, t.account, t.update_id
from deliveries d join turns t using (sid, turn_id)
where d.sid = %s and d.turn_id = %s and d.target = %s and d.part = %s for update of d
"""
_COUNT_FAILED = "update sessions set failed_deliveries = failed_deliveries + 1, last_error = %s where sid = %s"


EXPECT_DELIVERIES: LiteralString = """
insert into deliveries (sid, turn_id, target, part, parts)
select %(sid)s, %(turn_id)s, target, part, parts
from unnest(%(targets)b::integer[], %(counts)b::integer[]) as new(target, parts), generate_series(1, parts) part
"""
"""Writes the rows of an answer's parts, from 1 for each target; part of a larger statement. See `places.Parts`."""


@dataclass(frozen=True)
class Deliveries:
    """Handlers of `begin_delivery` and `finish_delivery`."""

    database: Database

    async def begin(self, _: Caller, request: BeginDeliveryRequest) -> BeginDeliveryReply:
        """Say whether a part may be sent now; marks it before the sender's call, so that no attempt goes unseen."""
        which = DeliveryId.parse(request.delivery_id)
        if which is None:
            return _reply(decide_delivery(None, request.holder))
        holder = storable(request.holder[:200])

        async def work(transaction: Transaction) -> BeginDeliveryReply:
            place = (which.sid, which.turn_id, which.target, which.part)
            (rows,) = await transaction.ask((_FIND, place))
            start = decide_delivery(FoundDelivery(**rows[0]) if rows else None, holder)
            await transaction.commit(*([(_BEGIN, (start.attempts, holder, *place))] if start.write else []))
            return _reply(start)

        return await self.database.run(Scope(sid=which.sid), work)

    async def finish(self, _: Caller, request: FinishDeliveryRequest) -> Empty:
        """Record how a part's attempt ended. A failure for good ends the parts after it and becomes an event."""
        which = DeliveryId.parse(request.delivery_id)
        if which is None:
            return Empty()
        place = (which.sid, which.turn_id, which.target, which.part)
        error, holder = storable(request.error), storable(request.holder[:200])

        async def work(transaction: Transaction) -> Empty:
            if request.outcome == "delivered":
                await transaction.commit((_DELIVERED, (storable(request.platform_message_id[:500]), *place)))
            elif request.outcome == "retry":
                await transaction.commit((_RETRY, (error, *place, holder)))
            else:
                _, rows = await transaction.ask(
                    ("select from sessions where sid = %s for update", (which.sid,)), (_FIND_FAILING, place)
                )
                fails = bool(rows) and rows[0]["state"] == "attempting" and rows[0]["holder"] == holder
                await transaction.commit(*(_fail(which, error, rows[0]) if fails else ()))
            return Empty()

        return await self.database.run(Scope(sid=which.sid), work)


def _fail(which: DeliveryId, error: str, row: Row) -> list[Statement]:
    facts = TurnFacts(which.sid, which.turn_id, row["cid"], row["account"], row["update_id"])
    data: dict[str, object] = {"part": which.part, "attempts": row["attempts"], "error": error}
    return [
        (_FAILED, (which.part, error, which.sid, which.turn_id, which.target, which.part)),
        (_COUNT_FAILED, (error, which.sid)),
        (TELL, {"sid": which.sid, "turn_id": which.turn_id, **tell([event_row(facts, EventType.DELIVERY_FAILED, data)])}),
    ]


def _reply(start: DeliveryStart) -> BeginDeliveryReply:
    return BeginDeliveryReply(proceed=start.proceed, state=start.state, attempts=start.attempts, uncertain=start.uncertain)
