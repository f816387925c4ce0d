"""Which commands a person may say. Pure.

This gates commands alone: who may talk at all is `authorize`'s, and what the agent may do is the Profile's.
"""

from __future__ import annotations

from hermes_contracts.access import ChatAccount
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_gateway.gateway.channels.commands import COMMANDS, Asked, CommandSpec, NoCommand, usage

FLOOR = frozenset({"help", "whoami"})
"""What everybody may say who may talk: without these nobody could find out why something is refused."""


def commands_for(account: ChatAccount, message: ChatMessage) -> tuple[CommandSpec, ...]:
    """Return the commands that a message's writer may say where he wrote it, in the table's order.

    Rooms and direct chats are apart. Where no admins are named everybody may say all but what is for admins only; where
    some are, the others have the floor and what the account lists for them, by name or alias.
    """
    if message.kind == "group":
        admins, listed = account.group_admins, frozenset(account.group_user_commands)
    else:
        admins, listed = account.admins, frozenset(account.user_commands)
    if message.user in admins:
        return COMMANDS
    others = tuple(spec for spec in COMMANDS if not spec.admins_only)
    if not admins:
        return others
    allowed = FLOOR | listed
    return tuple(spec for spec in others if not allowed.isdisjoint((spec.name, *spec.aliases)))


def permit(asked: Asked | NoCommand | None, allowed: tuple[CommandSpec, ...]) -> Asked | NoCommand | None:
    """Turn a command that is not among the allowed ones into the sentence that says so."""
    if not isinstance(asked, Asked) or asked.spec in allowed:
        return asked
    sayable = ", ".join(f"`{usage(spec)}`" for spec in allowed)
    return NoCommand(f"`/{asked.spec.name}` is for admins here. You may say: {sayable}.")
