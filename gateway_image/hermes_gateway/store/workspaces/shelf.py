"""Where the bytes of pieces are: in a stream of JetStream, one subject a piece."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError, NoRespondersError
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import APIError, NoStreamResponseError, NotFoundError

from hermes_contracts import subjects
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import MAX_PACKED_BYTES

log = structlog.get_logger()

Place = tuple[str, str]
"""Session and name of an object; a name is never used twice."""
_OVERHEAD = 1024
_FULL = {10023, 10047, 10077}
"""The stream is full, or the server has not the room that it asks for."""
_DELETES_AT_ONCE = 8


class Shelf(Protocol):
    """Keeps objects. Every method may be repeated. Raises HermesError: UNAVAILABLE, or TOO_LARGE when there is no room."""

    async def put(self, place: Place, data: bytes) -> None:
        """Keep an object."""
        ...

    async def get(self, place: Place) -> bytes | None:
        """Return an object, or None when it is not there."""
        ...

    async def delete(self, places: Sequence[Place]) -> None:
        """Delete objects, there or not."""
        ...


class BusShelf:
    """A stream of its own, made with the first piece; it never takes more than `max_bytes` of the bus's disk."""

    def __init__(self, bus: Client, max_bytes: int) -> None:
        self._bus = bus
        self._js = bus.jetstream()
        self._config = StreamConfig(
            name=subjects.PIECES_STREAM,
            subjects=[subjects.piece("*", "*")],
            retention=RetentionPolicy.LIMITS,
            storage=StorageType.FILE,
            discard=DiscardPolicy.NEW,
            max_msgs_per_subject=1,
            max_msg_size=MAX_PACKED_BYTES + _OVERHEAD,
            max_bytes=max_bytes,
            duplicate_window=1,
            allow_direct=True,
        )
        self._checked = False

    async def put(self, place: Place, data: bytes) -> None:
        """Publish and wait until it is on disk."""
        try:
            if not self._checked:
                await self._make_stream()
            try:
                await self._js.publish(subjects.piece(*place), data)
            except (NoStreamResponseError, NoRespondersError):
                await self._make_stream()
                raise
        except APIError as error:
            if error.err_code in _FULL:
                raise HermesError(
                    ErrorCode.TOO_LARGE,
                    "there is no room for files of workspaces: raise store.archive.busMiB, or keep them in a bucket of S3",
                ) from error
            raise _unavailable(error) from error
        except (NatsError, TimeoutError) as error:
            raise _unavailable(error) from error

    async def get(self, place: Place) -> bytes | None:
        """Read it directly, whichever server has it."""
        try:
            message = await self._js.get_last_msg(subjects.PIECES_STREAM, subjects.piece(*place), direct=True)
        except NotFoundError:
            return None
        except (NatsError, TimeoutError) as error:
            raise _unavailable(error) from error
        return message.data or b""

    async def delete(self, places: Sequence[Place]) -> None:
        """Purge their subjects."""
        room = asyncio.Semaphore(_DELETES_AT_ONCE)

        async def one(place: Place) -> None:
            async with room:
                await self._js.purge_stream(subjects.PIECES_STREAM, subject=subjects.piece(*place))

        try:
            async with asyncio.TaskGroup() as group:
                for place in places:
                    group.create_task(one(place))
        except* NotFoundError:
            pass
        except* (NatsError, TimeoutError) as errors:
            raise _unavailable(errors.exceptions[0]) from errors

    async def _make_stream(self) -> None:
        try:
            await self._js.stream_info(subjects.PIECES_STREAM)
        except NotFoundError:
            await self._js.add_stream(self._config)
        else:
            await self._js.update_stream(self._config)
        self._checked = True


def _unavailable(error: BaseException) -> HermesError:
    why = (error.description if isinstance(error, APIError) else None) or type(error).__name__
    return HermesError(ErrorCode.UNAVAILABLE, f"the bus does not keep files of workspaces now: {why}", retryable=True)
