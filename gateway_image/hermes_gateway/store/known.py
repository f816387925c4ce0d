"""What never changes about a turn, remembered, so that a write need not read it first.

A turn's id is a digest of its channel, account and update id, and a session's id one of its key: the same ids mean the same
facts, in every process and after every restart. What is not remembered is read.
"""

from __future__ import annotations

from collections import OrderedDict

from hermes_contracts.envelopes import Inbound
from hermes_contracts.names import RoutingKey
from hermes_gateway.store.database import Database, Scope, Transaction
from hermes_gateway.store.outbox import TurnFacts
from hermes_gateway.store.places import KnownTurn

_REMEMBERED = 4096
_READ = """
select t.cid, t.channel, t.account, t.update_id, t.inbound, s.key, s.namespace from turns t join sessions s using (sid)
where t.sid = %s and t.turn_id = %s
"""


class KnownTurns:
    """Remembers the turns used last; asks the database for others."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._turns: OrderedDict[tuple[str, str], KnownTurn] = OrderedDict()

    def remember(self, turn: KnownTurn) -> None:
        """Keep a turn's facts, and forget those used longest ago."""
        place = (turn.facts.sid, turn.facts.turn_id)
        self._turns[place] = turn
        self._turns.move_to_end(place)
        if len(self._turns) > _REMEMBERED:
            self._turns.popitem(last=False)

    async def get(self, sid: str, turn_id: str) -> KnownTurn | None:
        """Return a turn's facts, or None when there is no such turn."""
        turn = self._turns.get((sid, turn_id)) or await self._read(sid, turn_id)
        if turn is not None:
            self.remember(turn)
        return turn

    async def _read(self, sid: str, turn_id: str) -> KnownTurn | None:
        async def work(transaction: Transaction) -> KnownTurn | None:
            (rows,) = await transaction.commit((_READ, (sid, turn_id)))
            if not rows:
                return None
            row = rows[0]
            facts = TurnFacts(sid, turn_id, row["cid"], row["account"], row["update_id"])
            inbound, key = Inbound.model_validate_json(row["inbound"]), RoutingKey.model_validate(row["key"])
            return KnownTurn(facts, row["channel"], key, row["namespace"], inbound.run, inbound.reply_to, inbound.deliver)

        return await self._database.run(Scope(sid=sid), work)
