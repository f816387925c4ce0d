"""The one door to the bus: pending subjects, consumers, orders to agents, the bucket of projections."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import APIError, KeyNotFoundError, NoKeysError, NotFoundError
from nats.js.kv import KeyValue

from hermes_contracts import subjects
from hermes_contracts.envelopes import HEADER_MESSAGE_ID, HEADER_ROUTE, HEADER_SIGNATURE, EpochOrder, Route
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.projection import ProfileProjection, key
from hermes_contracts.warm_pool import Sealed
from hermes_service.signing import Verifier

log = structlog.get_logger()

ACK_WAIT_SECONDS = 30
MAX_ACK_PENDING = 1
"""Strict order: a message that was pulled and not opened comes back before the next one is handed out."""
INACTIVE_SECONDS = 3600
"""A consumer nobody pulls from is deleted by the server after this: the net under a deletion that was missed."""
_FILTER_NOT_UNIQUE = frozenset({10099, 10100})
_MAX_UNSIGNED = 16
_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True)
class Arrival:
    """The routing facts of the first waiting message that the gateway signed."""

    route: Route
    at: float = 0.0
    """Seconds since the epoch when the bus took the message."""


class BusDoor:
    """What the operator does on the bus. Every failure is a HermesError UNAVAILABLE."""

    def __init__(self, client: Client, verifier: Verifier) -> None:
        self._client = client
        self._js = client.jetstream(timeout=_TIMEOUT_SECONDS)
        self._verifier = verifier
        self._profiles: KeyValue | None = None

    async def pending_everywhere(self) -> dict[str, int]:
        """Return the number of waiting messages by session id, of all inbound streams."""
        found: dict[str, int] = {}
        for stream in subjects.IN_STREAMS:
            offset = 0
            while True:
                body = await self._api(f"STREAM.INFO.{stream}", {"subjects_filter": "hermes.in.>", "offset": offset})
                page = body["state"].get("subjects") or {}
                found.update({subjects.sid_of_inbound(subject): count for subject, count in page.items()})
                offset += len(page)
                if not page or offset >= body.get("total", 0):
                    break
        return found

    async def pending(self, sid: str) -> int:
        """Return the number of one session's messages that wait or are being worked on."""
        subject = subjects.inbound(sid)
        body = await self._api(f"STREAM.INFO.{subjects.in_stream(sid)}", {"subjects_filter": subject})
        return int((body["state"].get("subjects") or {}).get(subject, 0))

    async def first_arrival(self, sid: str) -> Arrival | None:
        """Return the facts of the first waiting message with a good signature; None when there is none."""
        subject, sequence = subjects.inbound(sid), 1
        for _ in range(_MAX_UNSIGNED):
            try:
                message = await self._js.get_msg(subjects.in_stream(sid), seq=sequence, subject=subject, next=True)
            except (NotFoundError, KeyNotFoundError):
                return None
            except (NatsError, TimeoutError) as error:
                raise unavailable(error) from error
            headers = message.headers or {}
            text = headers.get(HEADER_ROUTE, "")
            signature = headers.get(HEADER_SIGNATURE, "")
            identity = headers.get(HEADER_MESSAGE_ID, "")
            if self._verifier.verify(signature, subject, identity, text, message.data or b""):
                route = Route.model_validate_json(text)
                if route.sid == sid:
                    return Arrival(route, message.time.timestamp() if message.time else 0.0)
            log.warning("arrival.unsigned", sid=sid, sequence=message.seq)
            sequence = (message.seq or sequence) + 1
        return None

    async def make_consumer(self, sid: str, epoch: int) -> None:
        """Make the consumer of an epoch, after deleting those of older ones: a subject has one consumer at a time.

        Raises HermesError FENCED when a newer epoch has one: whoever asks acts on what is long past.
        """
        stream, name = subjects.in_stream(sid), subjects.consumer(sid, epoch)
        if epoch > 1:
            await self.delete_consumer(sid, epoch - 1)
        config = ConsumerConfig(
            durable_name=name,
            filter_subject=subjects.inbound(sid),
            deliver_policy=DeliverPolicy.ALL,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT_SECONDS,
            max_ack_pending=MAX_ACK_PENDING,
            max_deliver=-1,
            inactive_threshold=INACTIVE_SECONDS,
        )
        try:
            await self._js.add_consumer(stream, config)
        except APIError as error:
            if error.err_code not in _FILTER_NOT_UNIQUE:
                raise unavailable(error) from error
            await self._delete_older(sid, epoch)
            await self._add_consumer(stream, config)
        except (NatsError, TimeoutError) as error:
            raise unavailable(error) from error

    async def _add_consumer(self, stream: str, config: ConsumerConfig) -> None:
        try:
            await self._js.add_consumer(stream, config)
        except (NatsError, TimeoutError) as error:
            raise unavailable(error) from error

    async def _delete_older(self, sid: str, epoch: int) -> None:
        stream, offset = subjects.in_stream(sid), 0
        while True:
            body = await self._api(f"CONSUMER.NAMES.{stream}", {"offset": offset})
            names = body.get("consumers") or []
            for name in names:
                owner, _, number = name.rpartition("-")
                if owner != sid or int(number) == epoch:
                    continue
                if int(number) > epoch:
                    raise HermesError(ErrorCode.FENCED, f"the bus: epoch {number} has the messages of epoch {epoch} already")
                await self._delete(stream, name)
            offset += len(names)
            if not names or offset >= body.get("total", 0):
                return

    async def delete_consumer(self, sid: str, epoch: int) -> None:
        """Delete an epoch's consumer, if it is there."""
        await self._delete(subjects.in_stream(sid), subjects.consumer(sid, epoch))

    async def _delete(self, stream: str, name: str) -> None:
        try:
            await self._js.delete_consumer(stream, name)
        except NotFoundError:
            return
        except (NatsError, TimeoutError) as error:
            raise unavailable(error) from error

    async def order(self, sid: str, epoch: int, order: EpochOrder) -> None:
        """Tell an epoch's agent something; nobody answers."""
        try:
            await self._client.publish(subjects.control_epoch(sid, epoch), order.model_dump_json().encode())
        except (NatsError, TimeoutError) as error:
            raise unavailable(error) from error

    async def hand_over(self, pod_uid: str, sealed: Sealed) -> None:
        """Send a waiting pod its identity."""
        try:
            await self._client.publish(subjects.warm_claim(pod_uid), sealed.model_dump_json().encode())
            await self._client.flush(timeout=int(_TIMEOUT_SECONDS))
        except (NatsError, TimeoutError) as error:
            raise unavailable(error) from error

    async def projections(self) -> dict[str, bytes]:
        """Return everything in the bucket of projections, by key."""
        bucket = await self._bucket()
        found = {}
        try:
            for name in await _keys(bucket):
                entry = await bucket.get(name)
                found[name] = entry.value or b""
        except NotFoundError:
            return found  # a key went meanwhile; its Profile's pass will say so again
        except (NatsError, TimeoutError) as error:
            raise unavailable(error) from error
        return found

    async def put_projection(self, projection: ProfileProjection) -> None:
        """Write what the gateway may know of a Profile."""
        bucket = await self._bucket()
        try:
            await bucket.put(key(projection.namespace, projection.name), projection.model_dump_json().encode())
        except (NatsError, TimeoutError) as error:
            raise unavailable(error) from error

    async def delete_projection(self, name: str) -> None:
        """Remove a Profile's entry."""
        bucket = await self._bucket()
        try:
            await bucket.delete(name)
        except (NatsError, TimeoutError) as error:
            raise unavailable(error) from error

    async def _bucket(self) -> KeyValue:
        if self._profiles is None:
            try:
                self._profiles = await self._js.key_value(subjects.PROFILES_BUCKET)
            except (NatsError, TimeoutError) as error:
                raise unavailable(error) from error
        return self._profiles

    async def _api(self, call: str, body: dict[str, Any]) -> dict[str, Any]:
        return await bus_api(self._client, call, body)


async def bus_api(client: Client, call: str, body: dict[str, Any]) -> dict[str, Any]:
    """Make a call of JetStream's API. Raises HermesError UNAVAILABLE."""
    try:
        answer = await client.request(f"$JS.API.{call}", json.dumps(body).encode(), timeout=_TIMEOUT_SECONDS)
    except (NatsError, TimeoutError) as error:
        raise unavailable(error) from error
    document: dict[str, Any] = json.loads(answer.data)
    if "error" in document:
        raise HermesError(ErrorCode.UNAVAILABLE, f"JetStream: {document['error'].get('description', '')}"[:300])
    return document


async def _keys(bucket: KeyValue) -> list[str]:
    try:
        return list(await bucket.keys())
    except NoKeysError:
        return []


def unavailable(error: Exception) -> HermesError:
    """Make the error for a bus that does not answer, or refuses."""
    detail = getattr(error, "description", None) or str(error) or type(error).__name__
    return HermesError(ErrorCode.UNAVAILABLE, f"the bus: {detail}"[:300], retryable=True)
