"""Transcripts, frozen prompts and titles."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts import PROTOCOL_VERSION
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    Empty,
    FreezePromptReply,
    FreezePromptRequest,
    FrozenPrompt,
    LoadRequest,
    SetTitleRequest,
    TranscriptRequest,
)  # fmt: skip
from hermes_gateway.store import rules
from hermes_gateway.store.answers import storable
from hermes_gateway.store.database import Database, Row, Scope, Statement, Transaction
from hermes_gateway.store.sessions import require_owner
from hermes_gateway.store.writes import LOCK_SESSION
from hermes_service.rpc import Caller, Encoded

MAX_PROMPT_BYTES = 256 * 1024
_PAGE_BYTES = 384 * 1024
"""A page ends before its messages exceed this, so that prompt, page and envelope fit the bus; one message always fits."""

_AGENT_PAGE = """
select sequence, turn_id, step, body, undone from messages
where sid = %s and cid = %s and not undone and sequence > greatest(%s,
    (select begins_after from conversations where sid = %s and cid = %s)) order by sequence limit %s
"""
_PAGE = """
select sequence, turn_id, step, body, undone from messages
where sid = %s and cid = %s and sequence > %s and not copied order by sequence limit %s
"""
_WHOLE_PAGE = """
select sequence, turn_id, step, body, undone from messages
where sid = %s and sequence > %s and not copied order by sequence limit %s
"""
_CONVERSATION = """
select case when %s then prompt end as prompt, compactions, context_tokens, context_sequence, undone
from conversations where sid = %s and cid = %s
"""
_NAME = """
with here as (
    select s.epoch, c.cid from (values (1)) one left join sessions s on s.sid = %(sid)s
    left join conversations c on c.sid = s.sid and c.cid = %(cid)s
), allowed as (
    select cid from here where epoch = %(epoch)s and cid is not null
), named as (
    update conversations c set title = %(title)s from allowed where c.sid = %(sid)s and c.cid = allowed.cid
), of_session as (
    update sessions set title = %(title)s from allowed where sid = %(sid)s and title = ''
)
select epoch, cid from here
"""
_PROMPT = "select prompt from conversations where sid = %s and cid = %s"
_UNKNOWN: Row = {"prompt": None, "compactions": 0, "context_tokens": 0, "context_sequence": 0, "undone": 0}
_UNDONE = ',"undone":true'
_EPOCH = "select epoch from sessions where sid = %s"


@dataclass(frozen=True)
class Conversations:
    """Handlers of `load`, `freeze_prompt`, `set_title` and `transcript`."""

    database: Database

    async def load(self, caller: Caller, request: LoadRequest) -> Encoded:
        """Return a page for the agent; the frozen prompt comes with the first page (`after` 0)."""

        async def work(transaction: Transaction) -> Encoded:
            place = (caller.sid, request.conversation)
            sessions, rows, found = await transaction.commit(
                (_EPOCH, (caller.sid,)),
                (_AGENT_PAGE, (*place, request.after, *place, request.limit + 1)),
                (_CONVERSATION, (request.after <= 0, *place)),
            )
            rules.require_epoch(sessions[0]["epoch"] if sessions else None, caller.sid, caller.epoch)
            page, more = cut_page(rows, request.limit)
            conversation = found[0] if found else _UNKNOWN
            return page_text(
                page,
                more=more,
                prompt=conversation["prompt"] or "null",
                compactions=conversation["compactions"],
                context_tokens=conversation["context_tokens"],
                context_sequence=conversation["context_sequence"],
                undone=conversation["undone"],
            )

        return await self.database.run(Scope(sid=caller.sid), work)

    async def freeze_prompt(self, caller: Caller, request: FreezePromptRequest) -> FreezePromptReply:
        """Keep the first prompt of a conversation; returns the kept one."""
        text = request.prompt.model_dump_json()
        if len(text.encode()) > MAX_PROMPT_BYTES:
            raise HermesError(ErrorCode.TOO_LARGE, f"freeze_prompt: prompt is over {MAX_PROMPT_BYTES} bytes; shorten it")

        async def work(transaction: Transaction) -> FreezePromptReply:
            sessions, kept = await transaction.ask(
                ("select epoch from sessions where sid = %s for update", (caller.sid,)),
                (_PROMPT, (caller.sid, request.conversation)),
            )
            rules.require_epoch(sessions[0]["epoch"] if sessions else None, caller.sid, caller.epoch)
            if kept:
                return FreezePromptReply(prompt=FrozenPrompt.model_validate_json(kept[0]["prompt"]))
            insert = "insert into conversations (sid, cid, prompt) values (%s, %s, %s)"
            await transaction.commit((insert, (caller.sid, request.conversation, text)))
            return FreezePromptReply(prompt=request.prompt)

        return await self.database.run(Scope(sid=caller.sid), work)

    async def set_title(self, caller: Caller, request: SetTitleRequest) -> Empty:
        """Name a conversation, and its session unless that has a name."""
        title = storable(request.title)
        values = {"sid": caller.sid, "epoch": caller.epoch, "cid": request.conversation, "title": title}

        async def work(transaction: Transaction) -> Row:
            _, (found,) = await transaction.commit((LOCK_SESSION, (caller.sid,)), (_NAME, values))
            return found

        found = await self.database.run(Scope(sid=caller.sid), work)
        rules.require_epoch(found["epoch"], caller.sid, caller.epoch)
        if found["cid"] is None:
            raise HermesError(
                ErrorCode.NOT_FOUND, f"conversation {request.conversation} has no prompt yet: freeze it, then name it"
            )
        return Empty()

    async def transcript(self, _: Caller, request: TranscriptRequest) -> Encoded:
        """Return a page for the session's owner."""
        page: Statement = (
            (_PAGE, (request.sid, request.conversation, request.after, request.limit + 1))
            if request.conversation is not None
            else (_WHOLE_PAGE, (request.sid, request.after, request.limit + 1))
        )

        async def work(transaction: Transaction) -> Encoded:
            owners, rows = await transaction.commit(("select owner from sessions where sid = %s", (request.sid,)), page)
            require_owner(owners, request.sid, request.owner)
            found, more = cut_page(rows, request.limit)
            return page_text(found, more=more)

        return await self.database.run(Scope(sid=request.sid), work)


def cut_page(rows: list[Row], limit: int) -> tuple[list[Row], bool]:
    """Return the rows that fit one reply, at least one if there is any, and whether more follow."""
    size, fitting = 0, 0
    for row in rows[:limit]:
        size += len(row["body"].encode())
        if size > _PAGE_BYTES and fitting:
            break
        fitting += 1
    return rows[:fitting], fitting < len(rows)


def page_text(rows: list[Row], *, more: bool, **fields: str | int) -> Encoded:
    """Put a `LoadReply` or `TranscriptReply` together from rows whose bodies, like a prompt, are JSON already."""
    messages = ",".join(
        f'{{"version":{PROTOCOL_VERSION},"sequence":{row["sequence"]},"turn_id":"{row["turn_id"]}",'
        f'"step":{row["step"]}{_UNDONE if row["undone"] else ""},"message":{row["body"]}}}'
        for row in rows
    )
    rest = "".join(f',"{name}":{value}' for name, value in fields.items())
    return Encoded(f'{{"version":{PROTOCOL_VERSION},"messages":[{messages}],"more":{"true" if more else "false"}{rest}}}')
