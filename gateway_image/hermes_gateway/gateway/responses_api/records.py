"""What the id of a response or a run means: a small record in a bucket, for 30 days; the answer itself is in the store."""

from __future__ import annotations

import re
from typing import Literal

import structlog
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError
from nats.js.kv import KeyValue
from pydantic import BaseModel, ConfigDict, ValidationError

from hermes_contracts import subjects
from hermes_contracts.access import ApiKeyRecord
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.gateway.web.errors import ApiError

log = structlog.get_logger()


class ResponseRecord(BaseModel):
    """A response or a run: whose it is, which message, and what its caller noted."""

    model_config = ConfigDict(frozen=True)

    id: str
    owner: str
    namespace: str
    model: str
    sid: str
    client_id: str
    update_id: str
    created_at: int
    previous: str | None = None
    metadata: dict[str, str] = {}
    background: bool = False
    user: str | None = None


class ResponseRecords:
    """Keeps records of one kind, whose ids begin with a word."""

    def __init__(self, js: JetStreamContext, kind: Literal["resp", "run"]) -> None:
        self._js = js
        self._id = re.compile(rf"{kind}_[a-z2-7]{{24}}")
        self._bucket: KeyValue | None = None

    async def keep(self, record: ResponseRecord) -> ResponseRecord:
        """Store a record and return it, or the one that the id had before. Raises HermesError UNAVAILABLE."""
        try:
            bucket = await self._open()
            try:
                await bucket.create(record.id, record.model_dump_json().encode())
                return record
            except KeyWrongLastSequenceError:
                return ResponseRecord.model_validate_json((await bucket.get(record.id)).value or b"")
        except (NatsError, TimeoutError, ValidationError) as error:
            raise _unavailable(error) from error

    async def find(self, caller: ApiKeyRecord, identity: str, param: str) -> ResponseRecord:
        """Return a record of the caller's. Raises ApiError 404: a foreign id is not found."""
        missing = ApiError(404, f"there is no {identity[:64]!r}", code="not_found", param=param)
        if not self._id.fullmatch(identity):
            raise missing
        try:
            entry = await (await self._open()).get(identity)
            record = ResponseRecord.model_validate_json(entry.value or b"")
        except (KeyNotFoundError, ValidationError):
            raise missing from None
        except (NatsError, TimeoutError) as error:
            raise _unavailable(error) from error
        mine = (record.owner, record.namespace) == (caller.owner, caller.namespace)
        if not mine or record.model not in caller.profiles:
            raise missing
        return record

    async def forget(self, record: ResponseRecord) -> None:
        """Delete a record. Raises HermesError UNAVAILABLE."""
        try:
            await (await self._open()).delete(record.id)
        except (NatsError, TimeoutError) as error:
            raise _unavailable(error) from error

    async def _open(self) -> KeyValue:
        if self._bucket is None:
            self._bucket = await self._js.key_value(subjects.RESPONSES_BUCKET)
        return self._bucket


def _unavailable(error: Exception) -> HermesError:
    log.info("responses.unavailable", error=str(error)[:200])
    return HermesError(ErrorCode.UNAVAILABLE, "the message bus does not answer; try again", retryable=True)
