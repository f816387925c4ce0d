"""What people set for conversations, and how conversations are found again."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts.envelopes import Inbound
from hermes_contracts.store_api import (
    ConversationRequest,
    Conversations,
    ConversationSettings,
    ConversationsRequest,
    ListedConversation,
)
from hermes_gateway.store.answers import storable
from hermes_gateway.store.database import Database, Scope, Statement, Transaction
from hermes_gateway.store.sessions import require_owner
from hermes_gateway.store.undo import beginning
from hermes_service.rpc import Caller

_OWNER = "select owner from sessions where sid = %s"
_SET = """
insert into conversation_choices (sid, cid, title, model)
values (%(sid)s, %(cid)s, coalesce(%(title)s::text, ''), coalesce(%(model)s::text, ''))
on conflict (sid, cid) do update set changed_at = now(),
    title = coalesce(%(title)s::text, conversation_choices.title),
    model = coalesce(%(model)s::text, conversation_choices.model)
"""
# The key of a session that is a person's in all places names no chat.
_NAME_SESSION = "update sessions set title = %(title)s where sid = %(sid)s and key ->> 'chat' <> '' and %(title)s <> ''"
_SETTINGS = """
select coalesce(nullif(p.title, ''), c.title, '') as title, coalesce(p.model, '') as model
from (values (1)) one left join conversation_choices p on p.sid = %(sid)s and p.cid = %(cid)s
left join conversations c on c.sid = %(sid)s and c.cid = %(cid)s
"""
_LIST = """
with talked as (
    select cid, count(*) as turns, max(opened_at) as last, min(opened_at) as first from turns
    where sid = %(sid)s and cid = any(%(cids)s) group by cid
)
select talked.cid, talked.turns, extract(epoch from last)::float8 as last_activity,
    coalesce(nullif(p.title, ''), c.title, '') as title,
    (select inbound from turns t where t.sid = %(sid)s and t.cid = talked.cid and t.opened_at = first limit 1) as inbound
from talked left join conversation_choices p on p.sid = %(sid)s and p.cid = talked.cid
left join conversations c on c.sid = %(sid)s and c.cid = talked.cid
order by last desc, talked.cid
"""


@dataclass(frozen=True)
class Choices:
    """Handlers of `conversation` and `list_conversations`."""

    database: Database

    async def conversation(self, _: Caller, request: ConversationRequest) -> ConversationSettings:
        """Set what is given, and return all."""
        values = {
            "sid": request.sid,
            "cid": request.conversation,
            "title": None if request.title is None else storable(request.title),
            "model": None if request.model is None else storable(request.model),
        }
        place = {"sid": request.sid, "cid": request.conversation}

        async def work(transaction: Transaction) -> ConversationSettings:
            (owners,) = await transaction.ask((_OWNER, (request.sid,)))
            require_owner(owners, request.sid, request.owner)
            writes: list[Statement] = []
            if request.title is not None or request.model is not None:
                writes.append((_SET, values))
            if request.title is not None:
                writes.append((_NAME_SESSION, values))
            *_, (found,) = await transaction.commit(*writes, (_SETTINGS, place))
            return ConversationSettings(title=found["title"], model=found["model"])

        return await self.database.run(Scope(sid=request.sid), work)

    async def list(self, _: Caller, request: ConversationsRequest) -> Conversations:
        """Describe those conversations in which something was said."""
        values = {"sid": request.sid, "cids": list(request.conversations)}

        async def work(transaction: Transaction) -> Conversations:
            owners, rows = await transaction.commit((_OWNER, (request.sid,)), (_LIST, values))
            require_owner(owners, request.sid, request.owner)
            return Conversations(
                conversations=tuple(
                    ListedConversation(
                        conversation=row["cid"],
                        title=row["title"],
                        begins=beginning(Inbound.model_validate_json(row["inbound"]).text),
                        turns=row["turns"],
                        last_activity=row["last_activity"],
                    )
                    for row in rows
                )
            )

        return await self.database.run(Scope(sid=request.sid), work)
