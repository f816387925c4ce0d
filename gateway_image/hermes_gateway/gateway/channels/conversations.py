"""Which conversation goes on in a place of a chat: the first, until somebody begins a new one or goes back to another."""

from __future__ import annotations

import hashlib

import structlog
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError
from nats.js.kv import KeyValue
from pydantic import BaseModel, ValidationError

from hermes_contracts import names, subjects
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import MAX_LISTED

log = structlog.get_logger()

_ATTEMPTS = 5


class Beginning(BaseModel):
    """The message that began a conversation or went back to one, and when it was written, in the platform's own order."""

    update_id: str
    order: float
    conversation: str = ""
    """The one that was gone back to; empty: the message began one."""
    earlier: tuple[str, ...] = ()
    """Others of the place that there were, oldest first, `MAX_LISTED` at most."""


class Conversations:
    """Beginnings by session and place, in a bucket: every gateway sees them, and none is lost with a gateway."""

    def __init__(self, js: JetStreamContext) -> None:
        self._js = js
        self._bucket: KeyValue | None = None

    async def current(self, sid: str, place: str) -> str:
        """Return the id of the present conversation. Raises HermesError UNAVAILABLE."""
        try:
            begun, _ = await self._read(_name(sid, place))
        except (NatsError, TimeoutError) as error:
            raise _away(error) from error
        return _meant(sid, place, begun)

    async def known(self, sid: str, place: str) -> tuple[str, ...]:
        """Return the ids of all conversations of a place, the present one last. Raises HermesError UNAVAILABLE."""
        try:
            begun, _ = await self._read(_name(sid, place))
        except (NatsError, TimeoutError) as error:
            raise _away(error) from error
        return _known(sid, place, begun)

    async def begin(self, sid: str, place: str, beginning: Beginning) -> None:
        """Begin a new one, or go back to one. Saying so twice changes nothing, nor does a message older than the latest one.

        Raises HermesError UNAVAILABLE.
        """
        name = _name(sid, place)
        try:
            for _ in range(_ATTEMPTS):
                begun, revision = await self._read(name)
                if begun is not None and begun.order >= beginning.order:
                    return
                now = _meant(sid, place, beginning)
                earlier = tuple(one for one in _known(sid, place, begun) if one != now)[1 - MAX_LISTED :]
                value = beginning.model_copy(update={"earlier": earlier}).model_dump_json().encode()
                try:
                    bucket = await self._open()
                    await (bucket.update(name, value, revision) if revision else bucket.create(name, value))
                    return
                except KeyWrongLastSequenceError:
                    continue
        except (NatsError, TimeoutError) as error:
            raise _away(error) from error
        raise HermesError(ErrorCode.UNAVAILABLE, "too many begin a conversation here at once; try again", retryable=True)

    async def _read(self, name: str) -> tuple[Beginning | None, int]:
        try:
            entry = await (await self._open()).get(name)
        except KeyNotFoundError:
            return None, 0
        try:
            return Beginning.model_validate_json(entry.value or b""), entry.revision or 0
        except ValidationError:
            return None, entry.revision or 0

    async def _open(self) -> KeyValue:
        if self._bucket is None:
            self._bucket = await self._js.key_value(subjects.CONVERSATIONS_BUCKET)
        return self._bucket


def _meant(sid: str, place: str, begun: Beginning | None) -> str:
    if begun is None:
        return names.conversation_id(sid, place)
    return begun.conversation or names.conversation_id(sid, place, begun.update_id)


def _known(sid: str, place: str, begun: Beginning | None) -> tuple[str, ...]:
    first, now = names.conversation_id(sid, place), _meant(sid, place, begun)
    earlier = begun.earlier if begun is not None else ()
    before = earlier if first in earlier else (first, *earlier)
    return (*(one for one in before if one != now), now)


def _name(sid: str, place: str) -> str:
    return f"{sid}-{hashlib.sha256(place.encode()).hexdigest()[:32]}"


def _away(error: Exception) -> HermesError:
    log.info("conversations.unavailable", error=str(error)[:200] or type(error).__name__)
    return HermesError(ErrorCode.UNAVAILABLE, "the message bus does not answer; try again", retryable=True)
