"""Transcripts and frozen prompts."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts.conversation import Message
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    FreezePromptReply,
    FreezePromptRequest,
    FrozenPrompt,
    LoadReply,
    LoadRequest,
    StoredMessage,
    TranscriptReply,
    TranscriptRequest,
)  # fmt: skip
from hermes_gateway.store import rules
from hermes_gateway.store.database import Database, Row, Scope, Statement, Transaction
from hermes_gateway.store.sessions import require_owner
from hermes_service.rpc import Caller

MAX_PROMPT_BYTES = 256 * 1024
_PAGE_BYTES = 384 * 1024
"""A page ends before its messages exceed this, so that prompt, page and envelope fit the bus; one message always fits."""

_PAGE = """
select sequence, turn_id, step, body from messages
where sid = %s and cid = %s and sequence > %s order by sequence limit %s
"""
_WHOLE_PAGE = (
    "select sequence, turn_id, step, body from messages where sid = %s and sequence > %s order by sequence limit %s"
)
_PROMPT = "select prompt from conversations where sid = %s and cid = %s"
_EPOCH = "select epoch from sessions where sid = %s"


@dataclass(frozen=True)
class Conversations:
    """Handlers of `load`, `freeze_prompt` and `transcript`."""

    database: Database

    async def load(self, caller: Caller, request: LoadRequest) -> LoadReply:
        """Return a page for the agent; the frozen prompt comes with the first page (`after` 0)."""

        async def work(transaction: Transaction) -> LoadReply:
            prompt: list[Statement] = [(_PROMPT, (caller.sid, request.conversation))] if request.after <= 0 else []
            sessions, rows, *prompts = await transaction.commit(
                (_EPOCH, (caller.sid,)),
                (_PAGE, (caller.sid, request.conversation, request.after, request.limit + 1)),
                *prompt,
            )
            rules.require_epoch(sessions[0]["epoch"] if sessions else None, caller.sid, caller.epoch)
            page, more = cut_page(rows, request.limit)
            frozen = prompts[0][0]["prompt"] if prompts and prompts[0] else None
            return LoadReply(
                prompt=FrozenPrompt.model_validate_json(frozen) if frozen is not None else None,
                messages=tuple(map(_stored, page)),
                more=more,
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

    async def transcript(self, _: Caller, request: TranscriptRequest) -> TranscriptReply:
        """Return a page for the session's owner."""
        page: Statement = (
            (_PAGE, (request.sid, request.conversation, request.after, request.limit + 1))
            if request.conversation is not None
            else (_WHOLE_PAGE, (request.sid, request.after, request.limit + 1))
        )

        async def work(transaction: Transaction) -> TranscriptReply:
            owners, rows = await transaction.commit(("select owner from sessions where sid = %s", (request.sid,)), page)
            require_owner(owners, request.sid, request.owner)
            found, more = cut_page(rows, request.limit)
            return TranscriptReply(messages=tuple(map(_stored, found)), more=more)

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


def _stored(row: Row) -> StoredMessage:
    return StoredMessage(
        sequence=row["sequence"], turn_id=row["turn_id"], step=row["step"], message=Message.model_validate_json(row["body"])
    )
