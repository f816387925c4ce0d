"""Which conversation goes on in a place of a chat: the first one, until somebody begins a new one there."""

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

log = structlog.get_logger()

_ATTEMPTS = 5


class Beginning(BaseModel):
    """The message that began a conversation, and when it was written, in the platform's own order."""

    update_id: str
    order: float


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
        return names.conversation_id(sid, place, *((begun.update_id,) if begun is not None else ()))

    async def begin(self, sid: str, place: str, beginning: Beginning) -> None:
        """Begin a new one. Saying so twice changes nothing, nor does a message older than the latest beginning.

        Raises HermesError UNAVAILABLE.
        """
        name, value = _name(sid, place), beginning.model_dump_json().encode()
        try:
            for _ in range(_ATTEMPTS):
                begun, revision = await self._read(name)
                if begun is not None and begun.order >= beginning.order:
                    return
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


def _name(sid: str, place: str) -> str:
    return f"{sid}-{hashlib.sha256(place.encode()).hexdigest()[:32]}"


def _away(error: Exception) -> HermesError:
    log.info("conversations.unavailable", error=str(error)[:200] or type(error).__name__)
    return HermesError(ErrorCode.UNAVAILABLE, "the message bus does not answer; try again", retryable=True)
