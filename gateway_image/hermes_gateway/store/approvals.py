"""Questions to people: asked by an agent, answered once, by whoever may. Durable, so that no pod need wait for an answer."""

from __future__ import annotations

import hashlib
from base64 import b32encode
from dataclasses import dataclass
from typing import Literal, LiteralString

from psycopg.types.json import Jsonb

from hermes_contracts.envelopes import EventType, Inbound
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    AnswerApprovalReply,
    AnswerApprovalRequest,
    Approval,
    ApprovalIdRequest,
    Approvals,
    AskApprovalReply,
    AskApprovalRequest,
    ListApprovalsRequest,
)  # fmt: skip
from hermes_contracts.store_api.people import PeopleAction
from hermes_gateway.store import rules
from hermes_gateway.store.answers import storable
from hermes_gateway.store.database import Database, Row, Scope, Statement, Transaction
from hermes_gateway.store.grants import grant_statement
from hermes_gateway.store.outbox import TELL, OutboxRow, TurnFacts, event_row, tell
from hermes_gateway.store.people_record import decision_statement
from hermes_gateway.store.sessions import require_owner
from hermes_service.rpc import Caller

Verdict = Literal["recorded", "answered_before", "expired", "not_yours", "wrong_kind"]
MAX_OPEN = 20
"""Open questions of one session."""
_SHOWN_CHARACTERS = 2_000

_LOCK = "select sid, epoch, owner, namespace, profile from sessions where sid = %s for update"
_TURN = "select state, inbound from turns where sid = %s and turn_id = %s"
_GRANTED = """
select exists (
        select from approvals where sid = %(sid)s and call_hash = %(hash)s and state = 'approved' and scope = 'session'
    )
    or exists (select from approval_grants where call_hash = %(hash)s) as granted
"""
_COUNT = "select count(*) as open from approvals where sid = %s and state = 'pending' and deadline > now()"
_COLUMNS: LiteralString = """
select approval_id, kind, state, state = 'pending' and deadline <= now() as expired, tool, arguments, question, options,
    turn_id, scope, answer, answered_by, inbound,
    extract(epoch from asked_at)::float8 as asked_at, extract(epoch from deadline)::float8 as deadline
from approvals
"""
_ONE: LiteralString = _COLUMNS + "where sid = %s and approval_id = %s"
_OPEN: LiteralString = _COLUMNS + "where sid = %s and state = 'pending' and deadline > now() order by asked_at limit 100"
_LIST: LiteralString = _COLUMNS + (
    "where sid = %s and (not %s or (state = 'pending' and deadline > now())) order by asked_at desc, approval_id limit 100"
)
_INSERT = """
insert into approvals (sid, approval_id, turn_id, call_id, epoch, kind, tool, arguments, call_hash, question, options,
    inbound, deadline)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, now() + make_interval(secs => %s))
"""
_ANSWER = """
update approvals set state = %s, scope = %s, answer = %s, answered_by = %s, answered_at = now()
where sid = %s and approval_id = %s and state = 'pending' and deadline > now()
"""
_STATES = {"approve": "approved", "deny": "denied", "answer": "answered"}
_RECORDED: dict[str, PeopleAction] = {
    "approved": "call_approved",
    "denied": "call_denied",
    "answered": "question_answered",
}


def approval_id(sid: str, turn_id: str, call_id: str) -> str:
    """Derive a question's id: short, the same when the same call asks again, and no word of any language: it begins with a
    digit."""
    digest = hashlib.sha256("\0".join(("approval", sid, turn_id, call_id)).encode()).digest()
    return "234567"[digest[-1] % 6] + b32encode(digest).decode().lower()[:7]


@dataclass(frozen=True)
class ApprovalDesk:
    """Handlers of `ask_approval`, `get_approval`, `list_approvals` and `answer_approval`."""

    database: Database

    async def ask(self, caller: Caller, request: AskApprovalRequest) -> AskApprovalReply:
        """Say that a call is allowed already, or keep the question. The same call asks once."""
        sid = caller.sid
        name = approval_id(sid, request.turn_id, request.call_id)

        async def work(transaction: Transaction) -> AskApprovalReply:
            sessions, turns, granted, found, counts = await transaction.ask(
                (_LOCK, (sid,)),
                (_TURN, (sid, request.turn_id)),
                (_GRANTED, {"sid": sid, "hash": request.call_hash}),
                (_ONE, (sid, name)),
                (_COUNT, (sid,)),
            )
            rules.require_epoch(sessions[0]["epoch"] if sessions else None, sid, caller.epoch)
            rules.require_running(turns[0]["state"] if turns else None, request.turn_id)
            if request.kind == "call" and granted[0]["granted"]:
                return AskApprovalReply(allowed=True, approval_id="", deadline=0.0)
            if not found:
                if counts[0]["open"] >= MAX_OPEN:
                    raise HermesError(ErrorCode.CONFLICT, f"{MAX_OPEN} questions of this session wait for an answer already")
                inbound = turns[0]["inbound"]
                row = _asked(inbound, name, request)
                values = {"sid": sid, "turn_id": request.turn_id, **tell([row])}
                insert = (_INSERT, _new(caller, name, request, inbound))
                _, found, _ = await transaction.commit(insert, (_ONE, (sid, name)), (TELL, values))
            return AskApprovalReply(allowed=False, approval_id=name, deadline=found[0]["deadline"])

        return await self.database.run(Scope(sid=sid), work)

    async def get(self, caller: Caller, request: ApprovalIdRequest) -> Approval:
        """Return one of the caller's questions."""

        async def work(transaction: Transaction) -> Approval:
            sessions, found = await transaction.commit((_LOCK, (caller.sid,)), (_ONE, (caller.sid, request.approval_id)))
            rules.require_epoch(sessions[0]["epoch"] if sessions else None, caller.sid, caller.epoch)
            if not found:
                raise HermesError(ErrorCode.NOT_FOUND, f"there is no question {request.approval_id}")
            return _approval(found[0])

        return await self.database.run(Scope(sid=caller.sid), work)

    async def list(self, _: Caller, request: ListApprovalsRequest) -> Approvals:
        """Return a session's questions to its owner."""

        async def work(transaction: Transaction) -> Approvals:
            owners, rows = await transaction.ask(
                ("select owner from sessions where sid = %s", (request.sid,)), (_LIST, (request.sid, request.pending))
            )
            require_owner(owners, request.sid, request.owner)
            return Approvals(approvals=tuple(_approval(row, _SHOWN_CHARACTERS) for row in rows))

        return await self.database.run(Scope(sid=request.sid), work)

    async def answer(self, _: Caller, request: AnswerApprovalRequest) -> AnswerApprovalReply:
        """Decide a question: the first who may and says so in time, and nobody after."""

        async def work(transaction: Transaction) -> AnswerApprovalReply:
            lookup: Statement = (
                (_ONE, (request.sid, request.approval_id)) if request.approval_id else (_OPEN, (request.sid,))
            )
            sessions, found = await transaction.ask((_LOCK, (request.sid,)), lookup)
            require_owner(sessions, request.sid, request.owner)
            if len(found) != 1:
                return AnswerApprovalReply(outcome="several" if found else "not_found")
            row, inbound = found[0], Inbound.model_validate_json(found[0]["inbound"])
            outcome = judge(_approval(row), inbound, request)
            if outcome is not None:
                known = outcome not in ("not_yours", "not_found")
                recorded = outcome == "recorded"
                return AnswerApprovalReply(
                    outcome=outcome,
                    approval=_approval(row, _SHOWN_CHARACTERS) if known else None,
                    inbound=inbound if recorded else None,
                )
            written = await transaction.commit(*_decide(request, row, inbound, sessions[0]))
            return AnswerApprovalReply(
                outcome="recorded", approval=_approval(written[-1][0], _SHOWN_CHARACTERS), inbound=inbound
            )

        return await self.database.run(Scope(sid=request.sid, owner=request.owner), work)


def judge(approval: Approval, inbound: Inbound, request: AnswerApprovalRequest) -> Verdict | None:
    """Return what forbids an answer, or None when it may be written. Pure."""
    author = bool(inbound.sender) and request.user == inbound.sender
    if not (request.by == request.owner or author or request.approver):
        return "not_yours"
    if (approval.kind == "question") is not (request.decision == "answer") and request.decision != "deny":
        return "wrong_kind"
    if approval.state != "pending":
        same = approval.state == _STATES[request.decision] and approval.answered_by == request.by
        return "recorded" if same else "answered_before"
    return "expired" if approval.expired else None


def _decide(request: AnswerApprovalRequest, row: Row, inbound: Inbound, session: Row) -> list[Statement]:
    sid, name, state = request.sid, row["approval_id"], _STATES[request.decision]
    scope = request.scope if state == "approved" else ""
    facts = TurnFacts.of(inbound, row["turn_id"])
    event = event_row(facts, EventType.APPROVAL_ANSWERED, {"approval_id": name, "state": state, "scope": scope})
    always = [grant_statement(request.owner, session, row)] if scope == "always" else []
    action = _RECORDED[state]
    return [
        (_ANSWER, (state, scope, storable(request.text), storable(request.by), sid, name)),
        *always,
        decision_statement(action, request.by, session, inbound, f"{name} {scope}".strip()),
        (TELL, {"sid": sid, "turn_id": row["turn_id"], **tell([event])}),
        (_ONE, (sid, name)),
    ]


def _new(caller: Caller, name: str, request: AskApprovalRequest, inbound: str) -> tuple[object, ...]:
    return (
        caller.sid,
        name,
        request.turn_id,
        storable(request.call_id),
        caller.epoch,
        request.kind,
        storable(request.tool),
        storable(request.arguments),
        request.call_hash,
        storable(request.question),
        Jsonb([storable(option) for option in request.options]),
        inbound,
        request.timeout_seconds,
    )


def _asked(inbound: str, name: str, request: AskApprovalRequest) -> OutboxRow:
    facts = TurnFacts.of(Inbound.model_validate_json(inbound), request.turn_id)
    data: dict[str, object] = {
        "approval_id": name,
        "kind": request.kind,
        "tool": request.tool,
        "question": storable(request.question),
        "options": list(request.options),
    }
    return event_row(facts, EventType.APPROVAL_REQUESTED, data)


def _approval(row: Row, most_characters: int | None = None) -> Approval:
    names = set(Approval.model_fields) - {"version", "options", "arguments"}
    return Approval(
        options=tuple(row["options"]),
        arguments=row["arguments"][:most_characters],
        **{name: row[name] for name in names},
    )
