"""Which Profile a place of a chat account belongs to, and what that Profile says of it. Pure.

The administrator binds an account to Profiles; each may claim places of it and narrow who may use it there. A room that a
Profile names beats all rooms, of two that claim the same the older one has it, and what nobody claims is the account's own
Profile's, unless that one says where it is to be used and this is not there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hermes_contracts.access import ChatAccount
from hermes_contracts.crd.channels import ChannelRules, PlaceRules, chat_claim, claims, direct_claim, groups_claim
from hermes_contracts.projection import ProfileProjection
from hermes_gateway.gateway.channels.base import ChatMessage


@dataclass(frozen=True)
class Place:
    """A place as one Profile has it."""

    profile: str
    rules: PlaceRules | None = None
    """None: the Profile says nothing, and the account alone decides."""
    users: frozenset[str] = frozenset()
    """Who may, of those whom the account allows; empty: all of them."""
    closed: bool = False
    """The Profile is not to be used here."""

    def admits(self, user: str) -> bool:
        """Tell whether the Profile leaves a person in whom the account allows."""
        return not self.closed and (not self.users or user in self.users)


def place_of(account: ChatAccount, message: ChatMessage, profile: Callable[[str, str], ProfileProjection | None]) -> Place:
    """Return what a message's place is; `profile` looks one up by namespace and name."""
    names = dict.fromkeys((account.profile, *account.profiles))
    known = [found for name in names if (found := profile(account.namespace, name)) is not None]
    said = [
        (found.name, rules)
        for found in sorted(known, key=lambda one: (one.created_at, one.name))
        for rules in found.channels
        if (rules.channel, rules.account) == (message.channel, account.name)
    ]
    for wanted in _wanted(account, message):
        for name, rules in said:
            if wanted in claims(rules):
                return _narrowed(name, rules, message)
    return Place(account.profile, closed=any(name == account.profile for name, _ in said))


def _wanted(account: ChatAccount, message: ChatMessage) -> tuple[str, ...]:
    """Return the claims that a message's place answers to, the narrowest first."""
    if message.kind == "direct":
        return (direct_claim(message.channel, account.name),)
    return (
        chat_claim(message.channel, account.name, message.chat),
        groups_claim(message.channel, account.name),
    )  # fmt: skip


def _narrowed(name: str, rules: ChannelRules, message: ChatMessage) -> Place:
    if message.kind == "direct":
        return Place(name, rules.direct, frozenset(rules.direct.allow_users))
    room = next((chat for chat in rules.groups.chats if chat.id == message.chat), None)
    users, own = frozenset(rules.groups.allow_users), frozenset(room.allow_users if room is not None else ())
    both = users & own if users and own else users | own
    return Place(name, rules.groups, both, closed=bool(users and own and not both))
