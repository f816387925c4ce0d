"""Which commands a person may say. Pure.

This gates commands alone: who may talk at all is `authorize`'s, and what the agent may do is the Profile's.
"""

from __future__ import annotations

from collections.abc import Sequence

from hermes_contracts.access import ChatAccount
from hermes_contracts.envelopes import Route
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_gateway.gateway.channels.commands import COMMANDS, Asked, CommandSpec, NoCommand, usage
from hermes_gateway.gateway.people.places import Place

FLOOR = frozenset({"help", "whoami"})
"""What everybody may say who may talk: without these nobody could find out why something is refused."""

_FOR_USERS = tuple(spec for spec in COMMANDS if not spec.admins_only)


def only_his_own(message: ChatMessage, route: Route, allowed: Sequence[CommandSpec]) -> bool:
    """Tell whether a message's writer may stop and take back only what he asked for himself: where people share a session,
    unless he is an admin (`allowed`: the commands that he may say)."""
    shared = message.kind == "group" and not route.key.user
    return shared and not any(spec.admins_only for spec in allowed)


def commands_for(account: ChatAccount, message: ChatMessage, place: Place | None = None) -> tuple[CommandSpec, ...]:
    """Return the commands that a message's writer may say where he wrote it, in the table's order.

    Rooms and direct chats are apart. Where no admins are named everybody may say all but what is for admins only; where
    some are, the others have the floor and what is listed for them, by name or alias. The Profile that has the place may
    name fewer admins and list fewer commands than the account; an admin is whom both name that name any.
    """
    if message.kind == "group":
        admins, listed = account.group_admins, frozenset(account.group_user_commands)
    else:
        admins, listed = account.admins, frozenset(account.user_commands)
    users = _listed(listed) if admins else _FOR_USERS
    found = COMMANDS if message.user in admins else users
    rules = place.rules if place is not None else None
    if rules is None or message.user in rules.admins:
        return found
    if not rules.admins and (rules.user_commands is None or message.user in admins):
        return found
    left = _listed(frozenset(rules.user_commands or ()))
    return tuple(spec for spec in found if spec in left)


def _listed(names: frozenset[str]) -> tuple[CommandSpec, ...]:
    allowed = FLOOR | names
    return tuple(spec for spec in _FOR_USERS if not allowed.isdisjoint((spec.name, *spec.aliases)))


def permit(asked: Asked | NoCommand | None, allowed: tuple[CommandSpec, ...]) -> Asked | NoCommand | None:
    """Turn a command that is not among the allowed ones into the sentence that says so."""
    if not isinstance(asked, Asked) or asked.spec in allowed:
        return asked
    sayable = ", ".join(f"`{usage(spec)}`" for spec in allowed)
    return NoCommand(f"`/{asked.spec.name}` is for admins here. You may say: {sayable}.")
