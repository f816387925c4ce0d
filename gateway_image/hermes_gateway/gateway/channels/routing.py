"""Which session and which place in it a chat message means. Pure."""

from __future__ import annotations

from typing import Literal

from hermes_contracts.names import RoutingKey
from hermes_contracts.store_api import Link
from hermes_gateway.gateway.channels.base import ChatMessage


def owner_of(message: ChatMessage) -> str:
    """Return whose session it is: the person's, in his workspace."""
    return f"{message.channel}:{message.team}:{message.user}"


def session_key(message: ChatMessage, scope: Literal["User", "Conversation"]) -> RoutingKey:
    """Return the routing key.

    Scope User: one session a person and account, wherever he writes. Scope Conversation: a direct chat and each thread in
    it, a thread of a room with all who write there, and in a room outside of threads each person.
    """
    if scope == "User":
        return RoutingKey(channel=message.channel, account=message.account, user=message.user)
    alone = message.kind == "group" and not message.reply_thread
    return RoutingKey(
        channel=message.channel,
        account=message.account,
        chat=message.chat,
        thread=message.reply_thread,
        user=message.user if alone else "",
    )


def session_owner(message: ChatMessage, scope: Literal["User", "Conversation"]) -> str:
    """Return the owner of the session that a message belongs to: a room's thread is nobody's own."""
    if scope == "Conversation" and message.kind == "group" and message.reply_thread:
        return f"{message.channel}:{message.team}:chat:{message.chat}"
    return owner_of(message)


def reached_as(message: ChatMessage, scope: Literal["User", "Conversation"], link: Link | None) -> tuple[str, RoutingKey]:
    """Return owner and routing key of a message whose writer may be linked. With scope Conversation links mean nothing."""
    if link is None or scope == "Conversation":
        return session_owner(message, scope), session_key(message, scope)
    channel, _, account = link.account.partition(":")
    return link.owner, RoutingKey(channel=channel, account=account, user=link.person)


def place_in_session(message: ChatMessage) -> str:
    """Return what tells conversations of one session apart: chat and thread."""
    return f"{message.chat}/{message.reply_thread}"
