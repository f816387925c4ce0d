"""The order in which a person's right is looked for. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hermes_contracts.access import ChatAccount
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_gateway.gateway.people.places import Place


class Right(StrEnum):
    """What lets a person in, or keeps him out."""

    NAMED = "named"
    CHAT = "chat"
    EVERYONE = "everyone"
    ASK_IF_GUEST = "ask_if_guest"
    """A grant for all, which guests do not have: the platform must be asked what this person is."""
    PAIRED = "paired"
    ASK_IF_PAIRED = "ask_if_paired"
    """Nothing else lets him in: the store must be asked whether an admin did."""
    DENIED = "denied"


@dataclass(frozen=True)
class Grants:
    """Who may, by the account. Lists are exact ids: a display name is nobody's proof."""

    users: frozenset[str]
    chats: frozenset[str]
    everyone: bool
    pairing: bool = False

    @classmethod
    def of(cls, account: ChatAccount) -> Grants:
        """Take an account's."""
        return cls(frozenset(account.allow_users), frozenset(account.allow_chats), account.allow_everyone, account.pairing)


def decide_right(
    grants: Grants, message: ChatMessage, guest: bool | None, paired: bool | None = None, place: Place | None = None
) -> Right:
    """Decide. `guest` and `paired` None: not asked yet; then ASK_IF_GUEST and ASK_IF_PAIRED may come back.

    The Profile that has the place only takes away. A person who is named may always, and so may one whom an admin let in by
    a code; a grant for a chat or for everyone never reaches bots, people of other organisations and guests. A bot is given
    no code.
    """
    if place is not None and not place.admits(message.user):
        return Right.DENIED
    if message.user in grants.users:
        return Right.NAMED
    in_chat = message.kind == "group" and message.chat in grants.chats
    if message.bot or message.foreign or not (in_chat or grants.everyone) or guest:
        if message.bot or not grants.pairing or paired is False:
            return Right.DENIED
        return Right.PAIRED if paired else Right.ASK_IF_PAIRED
    if guest is None:
        return Right.ASK_IF_GUEST
    return Right.CHAT if in_chat else Right.EVERYONE


def sentence_for_strangers(message: ChatMessage) -> str:
    """Return what a person without a right is told: nothing in a room, where it would tell everybody."""
    if message.kind != "direct" or message.bot:
        return ""
    return (
        "You may not use this agent. Ask the administrator of this installation to allow you; "
        f"your id here is `{message.user}`."
    )
