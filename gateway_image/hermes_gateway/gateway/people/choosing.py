"""`/profile`: which of an account's Profiles a person talks to, where the account has several that he may use there.

A choice is kept in a bucket by routing key: with scope User it follows the person, with scope Conversation it is the chat's.
It can only narrow: who may talk is decided before, and what is chosen must still be offered when a message comes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import structlog
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.errors import KeyNotFoundError
from nats.js.kv import KeyValue

from hermes_contracts import subjects
from hermes_contracts.access import ChatAccount
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import RoutingKey
from hermes_contracts.projection import ProfileProjection
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_gateway.gateway.people.places import Place

log = structlog.get_logger()

Lookup = Callable[[str, str], ProfileProjection | None]


def offered(account: ChatAccount, message: ChatMessage, place: Place, profile: Lookup) -> tuple[str, ...]:
    """Return the Profiles that a person may talk to in a place, its own first. Pure.

    Others are those that the administrator bound to the account and that name no places of it. A place that another Profile
    than the account's own has claimed is that Profile's alone.
    """
    if place.profile != account.profile:
        return (place.profile,)

    def free(name: str) -> bool:
        found = profile(account.namespace, name)
        return found is not None and not any(
            (rules.channel, rules.account) == (message.channel, account.name) for rules in found.channels
        )

    return (place.profile, *(name for name in dict.fromkeys(account.profiles) if name != place.profile and free(name)))


class ProfileChoices:
    """Choices by routing key: every gateway sees them. Methods raise HermesError UNAVAILABLE."""

    def __init__(self, js: JetStreamContext) -> None:
        self._js = js
        self._bucket: KeyValue | None = None

    async def chosen(self, namespace: str, key: RoutingKey, profiles: tuple[str, ...]) -> str:
        """Return the Profile that counts: what was chosen if it is among these, else the first."""
        if len(profiles) == 1:
            return profiles[0]
        try:
            entry = await (await self._open()).get(_name(namespace, key))
        except KeyNotFoundError:
            return profiles[0]
        except (NatsError, TimeoutError) as error:
            raise _away(error) from error
        name = (entry.value or b"").decode("utf-8", "replace")
        return name if name in profiles else profiles[0]

    async def choose(self, namespace: str, key: RoutingKey, profile: str) -> None:
        """Keep a choice."""
        try:
            await (await self._open()).put(_name(namespace, key), profile.encode())
        except (NatsError, TimeoutError) as error:
            raise _away(error) from error

    async def answer(self, argument: str, namespace: str, key: RoutingKey, profiles: tuple[str, ...]) -> str:
        """Carry out `/profile`; returns what the person is told."""
        now = await self.chosen(namespace, key, profiles)
        others = ", ".join(f"`{name}`" for name in profiles if name != now)
        if not argument:
            more = f"Say `/profile` with a name for another: {others}." if others else "There is no other to talk to here."
            return f"You talk to `{now}`. {more}"
        if argument not in profiles:
            word = " ".join(argument.replace("`", "").split())[:60]
            return f"There is no `{word}` to talk to here. You talk to `{now}`{f'; there is {others}' if others else ''}."
        await self.choose(namespace, key, argument)
        return f"From your next message on you talk to `{argument}`, in a session of its own. `/profile {now}` leads back."

    async def _open(self) -> KeyValue:
        if self._bucket is None:
            self._bucket = await self._js.key_value(subjects.CONVERSATIONS_BUCKET)
        return self._bucket


def _name(namespace: str, key: RoutingKey) -> str:
    return f"profile-{hashlib.sha256(chr(0).join((namespace, key.canonical())).encode()).hexdigest()[:40]}"


def _away(error: Exception) -> HermesError:
    log.info("choosing.unavailable", error=str(error)[:200] or type(error).__name__)
    return HermesError(ErrorCode.UNAVAILABLE, "the message bus does not answer; try again", retryable=True)
