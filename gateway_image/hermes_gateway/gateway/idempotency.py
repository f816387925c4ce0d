"""Idempotency-Key: one key of an owner means one message for a day, whichever replica is asked."""

from __future__ import annotations

import hashlib
import json
import re

import structlog
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.errors import KeyWrongLastSequenceError
from nats.js.kv import KeyValue

from hermes_contracts import subjects
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.gateway.web.errors import ApiError

log = structlog.get_logger()

_UPDATE_ID = re.compile(r"[\x21-\x7e]{1,200}")


def parse_update_id(value: str, header: str) -> str:
    """Check a caller's own message id. Raises ApiError 400."""
    if not _UPDATE_ID.fullmatch(value):
        raise ApiError(400, f"{header} must be 1 to 200 visible ASCII characters", code="invalid_value", param=header)
    return value


def fingerprint(*parts: str) -> str:
    """Return a digest of what a message says and where it goes."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class IdempotencyKeys:
    """Claims keys in a bucket whose entries live for a day."""

    def __init__(self, js: JetStreamContext) -> None:
        self._js = js
        self._bucket: KeyValue | None = None

    async def claim(self, namespace: str, owner: str, value: str, content: str) -> bool:
        """Tie a key to a message's fingerprint; True when it is new. Raises ApiError 409 when it was another message's,
        HermesError UNAVAILABLE when the bus does not answer."""
        name = hashlib.sha256("\0".join((namespace, owner, value)).encode()).hexdigest()
        try:
            if self._bucket is None:
                self._bucket = await self._js.key_value(subjects.IDEMPOTENCY_BUCKET)
            try:
                await self._bucket.create(name, content.encode())
                return True
            except KeyWrongLastSequenceError:
                entry = await self._bucket.get(name)
        except (NatsError, TimeoutError) as error:
            log.info("idempotency.unavailable", error=str(error)[:200])
            raise HermesError(ErrorCode.UNAVAILABLE, "the message bus does not answer; try again", retryable=True) from error
        if (entry.value or b"").decode() != content:
            used = "this Idempotency-Key was used for another message; use a new key for a new message"
            raise ApiError(409, used, code="idempotency_key_reused", param="Idempotency-Key", final=True)
        return False
