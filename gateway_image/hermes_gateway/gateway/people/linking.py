"""People who are one owner in several chats: they say a code, given in one, in the other. Never by a name or an address.

The store decides and keeps who is linked. What it decided is copied into a bucket of the bus, because each message asks for
it and a store that is away must not keep messages out; saying the command again renews the copy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import structlog
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError
from nats.js.kv import KeyValue
from pydantic import ValidationError

from hermes_contracts import subjects
from hermes_contracts.envelopes import Route
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import (
    CONFIRM_LINK,
    LINKS,
    PAIRING_CHARACTERS,
    REQUEST_LINK,
    UNLINK,
    ConfirmLinkRequest,
    Link,
    LinkedPerson,
    LinksRequest,
    RequestLinkRequest,
)  # fmt: skip
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_gateway.gateway.channels.routing import owner_of
from hermes_gateway.gateway.people.pairing import CODE, account_key, new_code
from hermes_service.rpc import StoreClient

log = structlog.get_logger()

_STORE_SECONDS = 2.0
_NONE = b""
"""What a copy says of somebody who is reached as himself."""
_GIVEN = (
    "Say `/link {code}` to me in the other chat, within ten minutes. From then on you are `{owner}` there, too: one agent, "
    "the same files. Never say a code that somebody else gave you: he would read what you write."
)
_RECENT = "You were given a code within the last ten minutes. Say that one in the other chat, or ask again later."
_FULL = "Too many people wait with a code at the moment. Try again in ten minutes."
_ROOM = "Say this to me directly: in a room everybody would read the code."
_SHARED = "Here an agent belongs to the chat and not to the person, so there is nothing to link."
_BOT = "Only people can be linked."
_NOT_LINKED = "You are not linked with anybody."
_REFUSED = {
    "unknown": "No code like this is waiting: it may be mistyped or more than ten minutes old. Get another with `/link`.",
    "locked": "You gave too many wrong codes. Nobody can be linked from here for an hour.",
    "same": "This is the code that you were given here. Say it in the other chat.",
    "has_others": "Others are linked with you here. Say `/unlink` first, or ask for a code here and say it there.",
}


class Linking:
    """Codes, links, and as whom a person is reached. Methods raise HermesError UNAVAILABLE when what they need is away."""

    def __init__(self, store: StoreClient, js: JetStreamContext) -> None:
        self._store = store
        self._js = js
        self._bucket: KeyValue | None = None

    async def reached(self, namespace: str, message: ChatMessage) -> Link | None:
        """Return as whom a message's writer is reached; None: as himself."""
        try:
            entry = await (await self._open()).get(_name(namespace, account_key(message), message.user))
            return Link.model_validate_json(entry.value) if entry.value else None
        except KeyNotFoundError:
            return None
        except ValidationError:
            log.warning("linking.unreadable", channel=message.channel)
            return None
        except (NatsError, TimeoutError) as error:
            raise _away(error) from error

    async def link(self, argument: str, message: ChatMessage, route: Route) -> str:
        """Carry out `/link`; returns what the person is told."""
        if message.bot:
            return _BOT
        if message.kind != "direct":
            return _ROOM
        if route.key.chat:
            return _SHARED
        return await (self._confirm(argument.strip().upper(), message, route) if argument else self._offer(message, route))

    async def unlink(self, message: ChatMessage, route: Route) -> str:
        """Carry out `/unlink`: end a person's link, or those of all who are reached as him."""
        request = _about(message, route)
        found = await self._store.call(LINKS, request, timeout_seconds=_STORE_SECONDS)
        own = LinkedPerson(account=request.account, person=request.person)
        # The copies first: a link that is ended in the store is never followed. And again afterwards, with those that came
        # meanwhile: whoever read the link before it was ended finds his copy newer than what he read, and leaves it alone.
        await self._forget_all(route.namespace, (own, *found.others))
        gone = await self._store.call(UNLINK, request, timeout_seconds=_STORE_SECONDS)
        await self._forget_all(route.namespace, (own, *found.others, *gone.others))
        ends = list(dict.fromkeys((other.account, other.person) for other in (*found.others, *gone.others)))
        if found.link is not None:
            return f"You are not linked with `{found.link.owner}` any more, and have an agent of your own here."
        parted = ", ".join(f"`{person}` of `{account}`" for account, person in ends)
        return f"Not linked with you any more: {parted}." if parted else _NOT_LINKED

    async def _offer(self, message: ChatMessage, route: Route) -> str:
        about, code = _about(message, route), new_code()
        revision = await self._revision(route.namespace, about.account, about.person)
        found = await self._store.call(LINKS, about, timeout_seconds=_STORE_SECONDS)
        await self._renew(route.namespace, about, found.link, revision)
        owner = found.link.owner if found.link is not None else owner_of(message)
        request = RequestLinkRequest(
            namespace=route.namespace, account=about.account, person=about.person, owner=owner, code=code
        )
        outcome = (await self._store.call(REQUEST_LINK, request, timeout_seconds=_STORE_SECONDS)).outcome
        said = {"kept": _GIVEN.format(code=code, owner=owner), "recent": _RECENT, "full": _FULL}[outcome]
        return said if found.link is None else f"You are linked with `{owner}`; `/unlink` ends it.\n\n{said}"

    async def _confirm(self, code: str, message: ChatMessage, route: Route) -> str:
        if CODE.fullmatch(code) is None:
            return f"A code has {PAIRING_CHARACTERS} letters and digits. Get one with `/link` in the other chat."
        about = _about(message, route)
        request = ConfirmLinkRequest(
            namespace=route.namespace, profile=route.profile, account=about.account, person=about.person, code=code
        )
        revision = await self._revision(route.namespace, about.account, about.person)
        reply = await self._store.call(CONFIRM_LINK, request, timeout_seconds=_STORE_SECONDS)
        if reply.link is None:
            return _REFUSED[reply.outcome]
        await self._renew(route.namespace, about, reply.link, revision)
        if reply.outcome == "linked_before":
            return f"You are linked with `{reply.link.owner}` already. Say `/unlink` first."
        return (
            f"You are `{reply.link.owner}` here, too, from your next message on: one agent, the same files. Whoever writes "
            "there can read what you write here. `/unlink` ends it."
        )

    async def _revision(self, namespace: str, account: str, person: str) -> int:
        """Return the revision of a person's copy, a deletion's too; 0 when there never was one."""
        try:
            return (await (await self._open()).get(_name(namespace, account, person))).revision or 0
        except KeyNotFoundError as error:
            return (error.entry.revision or 0) if error.entry is not None else 0
        except (NatsError, TimeoutError) as error:
            raise _away(error) from error

    async def _renew(self, namespace: str, about: LinksRequest, link: Link | None, revision: int) -> None:
        """Make the copy of a person's own link what the store said, unless it was changed since `revision` was read."""
        value = link.model_dump_json().encode() if link is not None else _NONE
        try:
            await (await self._open()).update(_name(namespace, about.account, about.person), value, last=revision)
        except KeyWrongLastSequenceError:
            log.info("linking.changed_meanwhile", account=about.account)
        except (NatsError, TimeoutError) as error:
            raise _away(error) from error

    async def _forget_all(self, namespace: str, people: Iterable[LinkedPerson]) -> None:
        """Have nobody reached as another. Written where nothing is, too: whoever reads at the same time must notice."""
        try:
            bucket = await self._open()
            for one in dict.fromkeys((one.account, one.person) for one in people):
                await bucket.put(_name(namespace, *one), _NONE)
        except (NatsError, TimeoutError) as error:
            raise _away(error) from error

    async def _open(self) -> KeyValue:
        if self._bucket is None:
            try:
                self._bucket = await self._js.key_value(subjects.CONVERSATIONS_BUCKET)
            except (NatsError, TimeoutError) as error:
                raise _away(error) from error
        return self._bucket


def _about(message: ChatMessage, route: Route) -> LinksRequest:
    return LinksRequest(namespace=route.namespace, account=account_key(message), person=message.user, profile=route.profile)


def _name(namespace: str, account: str, person: str) -> str:
    return f"link-{hashlib.sha256(chr(0).join((namespace, account, person)).encode()).hexdigest()[:40]}"


def _away(error: Exception) -> HermesError:
    log.info("linking.unavailable", error=str(error)[:200] or type(error).__name__)
    return HermesError(ErrorCode.UNAVAILABLE, "the message bus does not answer; try again", retryable=True)
