"""Takes exchanges of a conversation back: their messages stay for people, marked, and the agent's transcript loses them.

The session's row lock orders it against turns: one that runs refuses it, and one that is opened later is told that its
agent's transcript is old.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from hermes_contracts.envelopes import Inbound
from hermes_contracts.store_api import UndoReply, UndoRequest
from hermes_gateway.store import rules
from hermes_gateway.store.answers import storable
from hermes_gateway.store.commands import COMMAND_LIFE_SECONDS
from hermes_gateway.store.database import Database, Row, Scope, Transaction
from hermes_gateway.store.sessions import require_owner
from hermes_service.rpc import Caller

_SHOWN = 80

_LOCK_OWNED = "select owner from sessions where sid = %s for update"
_DONE = "select result from commands where sid = %s and account = %s and update_id = %s and kind = 'undo'"
_BUSY = """
select exists (select from turns where sid = %(sid)s and cid = %(cid)s and state in ('received', 'running'))
    or exists (select from commands where sid = %(sid)s and kind = 'compress' and result is null
        and arguments ->> 'conversation' in (%(cid)s, '') and created_at > now() - make_interval(secs => %(life)s)) as busy,
    (select count(*) from turns where sid = %(sid)s and state in ('received', 'running')) as running
"""
# A turn's first message is in its step 0; what a compaction copied is not what was said.
_LAST = """
select m.turn_id, min(m.sequence) as began, min(c.begins_after) as begins_after
from messages m join turns t on t.sid = m.sid and t.turn_id = m.turn_id
left join conversations c on c.sid = m.sid and c.cid = m.cid
where m.sid = %s and m.cid = %s and m.step = 0 and not m.copied and not m.undone
group by m.turn_id order by began desc limit %s
"""
_INBOUND = "select turn_id, inbound from turns where sid = %s and turn_id = any(%s)"
_MARK = "update messages set undone = true where sid = %s and turn_id = any(%s)"
_COUNT = """
update conversations set undone = undone + 1, context_tokens = 0, context_sequence = 0 where sid = %s and cid = %s
"""
# Nobody is to approve a call that the model does not know of any more.
_EXPIRE = "update approvals set deadline = now() where sid = %s and turn_id = any(%s) and state = 'pending'"
_NOTE = """
insert into commands (sid, command_id, account, update_id, kind, arguments, result, finished_at)
values (%s, %s, %s, %s, 'undo', '{}', %s, now())
"""

Refusal = Literal["", "busy", "waiting", "nothing", "compacted", "not_a_message", "not_yours"]


@dataclass(frozen=True)
class Taking:
    """What a request comes to: turns, newest first, or why there are none."""

    turns: tuple[str, ...] = ()
    refused: Refusal = ""


def decide_undo(found: list[Row], *, busy: bool, waits: bool) -> Taking:
    """Choose what is taken back: nothing that runs or is to run, and nothing that a summary has taken the place of."""
    if busy or waits:
        return Taking(refused="busy" if busy else "waiting")
    if not found:
        return Taking(refused="nothing")
    turns = tuple(row["turn_id"] for row in found if row["began"] > (row["begins_after"] or 0))
    return Taking(turns) if turns else Taking(refused="compacted")


def can_be_sent_again(inbound: Inbound) -> bool:
    """Tell whether a message is a person's own words and not the clock's, or a press of a button."""
    return inbound.run is None and not inbound.approval and bool(inbound.text.strip() or inbound.images)


@dataclass(frozen=True)
class Undoing:
    """Handler of `undo`."""

    database: Database

    async def undo(self, _: Caller, request: UndoRequest) -> UndoReply:
        """Take the last exchanges back, once for each update id; what was refused stays refused."""
        sid, account, update_id = request.sid, storable(request.account[:256]), storable(request.update_id)

        async def work(transaction: Transaction) -> UndoReply:
            look = {"sid": sid, "cid": request.conversation, "life": COMMAND_LIFE_SECONDS}
            owners, done = await transaction.ask((_LOCK_OWNED, (sid,)), (_DONE, (sid, account, update_id)))
            require_owner(owners, sid, request.owner)
            if done:
                taking = _recall(done[0]["result"])
                return await self._reply(transaction, request, taking)
            busy, found = await transaction.ask((_BUSY, look), (_LAST, (sid, request.conversation, request.exchanges)))
            taking = decide_undo(found, busy=busy[0]["busy"], waits=request.waiting > busy[0]["running"])
            reply = await self._reply(transaction, request, taking)
            if reply.refused == "waiting":
                await transaction.commit()
                return reply
            turns = list(taking.turns) if not reply.refused else []
            note = json.dumps({"turns": turns, "refused": reply.refused})
            await transaction.commit(
                (_MARK, (sid, turns)),
                *([(_COUNT, (sid, request.conversation))] if turns else []),
                (_EXPIRE, (sid, turns)),
                (_NOTE, (sid, rules.command_id(sid, account, update_id), account, update_id, note)),
            )
            return reply

        return await self.database.run(Scope(sid=sid), work)

    async def _reply(self, transaction: Transaction, request: UndoRequest, taking: Taking) -> UndoReply:
        if taking.refused:
            return UndoReply(refused=taking.refused)
        (rows,) = await transaction.ask((_INBOUND, (request.sid, list(taking.turns))))
        texts = {row["turn_id"]: Inbound.model_validate_json(row["inbound"]) for row in rows}
        if request.sender and any(inbound.sender != request.sender for inbound in texts.values()):
            return UndoReply(refused="not_yours")
        last = texts[taking.turns[0]]
        if request.again and not can_be_sent_again(last):
            return UndoReply(refused="not_a_message")
        return UndoReply(
            taken=tuple(beginning(texts[turn].text) for turn in taking.turns), last=last if request.again else None
        )


def beginning(text: str) -> str:
    """Return how a message begins, in one line."""
    line = " ".join(text[: _SHOWN * 4].split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


def _recall(result: str) -> Taking:
    kept = json.loads(result)
    return Taking(tuple(kept["turns"]), kept["refused"])
