"""What a Profile says of the chat accounts that the administrator bound to it: who may use it where. It only narrows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from hermes_contracts.chat_ids import CHAT_FORMS, EXAMPLES, PERSON_FORMS
from hermes_contracts.crd.base import ApiModel

USER_COMMANDS = (
    "help", "new", "resume", "title", "undo", "retry", "model", "profile", "stop", "steer", "queue", "compress", "approve",
    "deny", "answer", "status", "usage", "sessions", "link", "unlink", "cron", "whoami", "sethome", "home",
)  # fmt: skip
"""Commands of chats that others than admins can be given."""

PersonId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$", min_length=1, max_length=64)]
UserCommand = Annotated[str, StringConstraints(pattern=rf"^({'|'.join(USER_COMMANDS)})$", max_length=32)]


class PlaceRules(ApiModel):
    """Who may use the agent in one kind of place, and what they may say there."""

    enabled: bool = Field(default=True, description="False: nobody, and the Profile claims nothing here")
    allow_users: tuple[PersonId, ...] = Field(
        default=(),
        max_length=200,
        description="People who may, by the platform's ids; none named: whoever the account allows",
    )
    admins: tuple[PersonId, ...] = Field(
        default=(), max_length=50, description="People who may say every command, of those whom the account names if it does"
    )
    user_commands: tuple[UserCommand, ...] | None = Field(
        default=None,
        max_length=64,
        description="Commands that others may say beside help and whoami, of those that the account lets them say",
    )


class DirectRules(PlaceRules):
    """Direct chats."""


class ChatRules(ApiModel):
    """One room."""

    id: PersonId = Field(description="The room, by the platform's id: C0123ABCD, -1001234567890")
    allow_users: tuple[PersonId, ...] = Field(
        default=(), max_length=50, description="People who may use the agent in this room; none named: as in all rooms"
    )


class GroupRules(PlaceRules):
    """Rooms."""

    chats: tuple[ChatRules, ...] = Field(
        default=(), max_length=32, description="Rooms that the Profile claims; none named: all that no other Profile names"
    )


class ChannelRules(ApiModel):
    """One chat account."""

    channel: Literal["slack", "telegram"] = Field(description="Platform")
    account: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=63)] = Field(
        description="Name of the account, as the administrator bound it"
    )
    direct: DirectRules = Field(default=DirectRules(), description="Direct chats")
    groups: GroupRules = Field(default=GroupRules(), description="Rooms, threads included")


def mistyped(rules: ChannelRules) -> tuple[str, ...]:
    """Say which ids are none, each with its field and how one looks."""
    person, chat = EXAMPLES[rules.channel]
    people = (
        (f"{place}.{field}", value)
        for place, said in (("direct", rules.direct), ("groups", rules.groups))
        for field, values in (("allowUsers", said.allow_users), ("admins", said.admins))
        for value in values
    )
    in_rooms = ((f"groups.chats[{room.id}].allowUsers", one) for room in rules.groups.chats for one in room.allow_users)
    found = [
        f"{field}: {value!r} is no id; one looks like {person}"
        for field, value in (*people, *in_rooms)
        if re.fullmatch(PERSON_FORMS[rules.channel], value) is None
    ]
    found += [
        f"groups.chats: {room.id!r} is no id; one looks like {chat}"
        for room in rules.groups.chats
        if re.fullmatch(CHAT_FORMS[rules.channel], room.id) is None
    ]
    return tuple(found)


Claimant = tuple[float, str, Sequence[ChannelRules]]
"""When a Profile was made, its name, and what it says."""


def direct_claim(channel: str, account: str) -> str:
    """Name the direct chats of an account."""
    return f"every direct chat of {channel}:{account}"


def groups_claim(channel: str, account: str) -> str:
    """Name the rooms of an account that nobody names."""
    return f"every room of {channel}:{account}"


def chat_claim(channel: str, account: str, chat: str) -> str:
    """Name one room of an account."""
    return f"room {chat} of {channel}:{account}"


def claims(rules: ChannelRules) -> tuple[str, ...]:
    """Return what a Profile claims of an account. A room that is named is another claim than all rooms."""
    found = [direct_claim(rules.channel, rules.account)] if rules.direct.enabled else []
    if rules.groups.enabled:
        named = [chat_claim(rules.channel, rules.account, chat.id) for chat in rules.groups.chats]
        found += named or [groups_claim(rules.channel, rules.account)]
    return tuple(dict.fromkeys(found))


def conflicts(own: Claimant, others: Iterable[Claimant]) -> tuple[tuple[str, str], ...]:
    """Return the claims of a Profile that an older one of its namespace has, each with the older one's name."""
    older: dict[str, str] = {}
    for created_at, name, channels in sorted(others, key=lambda other: other[:2]):
        if (created_at, name) < own[:2]:
            for rules in channels:
                for claim in claims(rules):
                    older.setdefault(claim, name)
    return tuple((claim, older[claim]) for rules in own[2] for claim in claims(rules) if claim in older)
