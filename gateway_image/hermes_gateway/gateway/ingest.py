"""One message on its way in: routing facts, signature, publish, wake. Kubernetes and the store are not on this path."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from functools import lru_cache

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError, MaxPayloadError
from nats.js import JetStreamContext
from nats.js.errors import APIError, NoStreamResponseError

from hermes_contracts import names, subjects
from hermes_contracts.conversation import ImagePart
from hermes_contracts.envelopes import (
    HEADER_MESSAGE_ID,
    HEADER_ROUTE,
    HEADER_SIGNATURE,
    HEADER_TRACE,
    MAX_BODY_BYTES,
    Inbound,
    Route,
    Wake,
    message_id,
)
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.projection import ProfileProjection
from hermes_gateway.gateway import metrics
from hermes_service import tracing
from hermes_service.signing import Signer

log = structlog.get_logger()

_FULL_FOR_SESSION = 10077
_ATTEMPTS = 3
_REMEMBERED = 4096
"""Sessions whose ids are not derived anew for each message: hashes and JSON were a quarter of the time to accept one."""


@dataclass(frozen=True)
class Accepted:
    """The bus has the message on disk. `duplicate`: it had it before."""

    sid: str
    sequence: int
    duplicate: bool


@lru_cache(maxsize=_REMEMBERED)
def _session_id(namespace_uid: str, profile: str, key: names.RoutingKey) -> str:
    return names.session_id(namespace_uid, profile, key)


@lru_cache(maxsize=_REMEMBERED)
def _conversation_id(sid: str) -> str:
    return names.conversation_id(sid)


@lru_cache(maxsize=_REMEMBERED)
def _facts(route: Route) -> str:
    """Render a route for the header. Header values stay ASCII: what one may hold beyond it differs between clients, and the
    signature covers it."""
    return json.dumps(route.model_dump(mode="json"), separators=(",", ":"))


@lru_cache(maxsize=_REMEMBERED)
def _wake(route: Route) -> bytes:
    return Wake(route=route).model_dump_json().encode()


def route_to(profile: ProfileProjection, owner: str, key: names.RoutingKey) -> Route:
    """Return the facts of the session that a routing key means."""
    sid = _session_id(profile.namespace_uid, profile.name, key)
    return Route(sid=sid, namespace=profile.namespace, profile=profile.name, owner=owner, key=key)


def message_for(
    route: Route,
    *,
    update_id: str,
    text: str,
    instructions: str = "",
    sender: str = "",
    images: tuple[ImagePart, ...] = (),
) -> Inbound:
    """Build the message of a person for a session with one conversation."""
    return Inbound(
        sid=route.sid,
        conversation=_conversation_id(route.sid),
        channel=route.key.channel,
        account=route.key.account,
        update_id=update_id,
        owner=route.owner,
        sender=sender,
        text=text,
        images=images,
        instructions=instructions,
        received_at=time.time(),
    )


class Ingest:
    """Publishes messages."""

    def __init__(self, bus: Client, js: JetStreamContext, signer: Signer, *, timeout_seconds: float) -> None:
        self._bus = bus
        self._js = js
        self._signer = signer
        self._timeout_seconds = timeout_seconds

    async def publish(self, route: Route, inbound: Inbound, traceparent: str) -> Accepted:
        """Return when the bus has the message on disk. Raises HermesError: TOO_LARGE, RATE_LIMIT (too much waits for this
        session) or UNAVAILABLE; after the last one the message may have been stored, and the same update id is safe."""
        subject = subjects.inbound(route.sid)
        identity = message_id(route.sid, inbound.channel, inbound.account, inbound.update_id)
        body = inbound.model_dump_json().encode()
        if len(body) > MAX_BODY_BYTES:
            raise self._refused(inbound, ErrorCode.TOO_LARGE, f"the message is larger than {MAX_BODY_BYTES} bytes")
        facts = _facts(route)
        headers = {
            HEADER_MESSAGE_ID: identity,
            HEADER_ROUTE: facts,
            HEADER_SIGNATURE: self._signer.sign(subject, identity, facts, body),
            HEADER_TRACE: tracing.child_of(traceparent),
        }
        started = time.perf_counter()
        accepted = await self._store(inbound, subject, body, headers)
        metrics.ACCEPT_SECONDS.labels(inbound.channel).observe(time.perf_counter() - started)
        metrics.ACCEPTED.labels(inbound.channel, str(accepted.duplicate).lower()).inc()
        await self._wake(route, headers[HEADER_TRACE])
        return accepted

    async def _store(self, inbound: Inbound, subject: str, body: bytes, headers: dict[str, str]) -> Accepted:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                ack = await self._js.publish(subject, body, timeout=self._timeout_seconds, headers=headers)
                return Accepted(inbound.sid, ack.seq, bool(ack.duplicate))
            except MaxPayloadError as error:
                raise self._refused(inbound, ErrorCode.TOO_LARGE, "the message is too large for the bus") from error
            except APIError as error:
                if error.err_code == _FULL_FOR_SESSION:
                    full = "too many messages wait for this session; try again when it has caught up"
                    raise self._refused(inbound, ErrorCode.RATE_LIMIT, full, retry=5.0) from error
                log.warning("ingest.refused", code=error.code, err_code=error.err_code, description=error.description)
                full = "the message could not be stored; try again"
                raise self._refused(inbound, ErrorCode.UNAVAILABLE, full, retry=5.0) from error
            except (NatsError, NoStreamResponseError, TimeoutError) as error:
                if attempt == _ATTEMPTS:
                    away = "the message bus does not answer; try again"
                    raise self._refused(inbound, ErrorCode.UNAVAILABLE, away, retry=2.0) from error
                await asyncio.sleep(0.1 * attempt)
        raise AssertionError("unreachable")

    async def _wake(self, route: Route, traceparent: str) -> None:
        try:
            await self._bus.publish(subjects.WAKE, _wake(route), headers={HEADER_TRACE: traceparent})
        except NatsError as error:
            # The operator's sweep finds the message all the same.
            log.info("ingest.wake_lost", error=str(error)[:200])

    @staticmethod
    def _refused(inbound: Inbound, code: ErrorCode, message: str, *, retry: float | None = None) -> HermesError:
        metrics.REFUSED.labels(inbound.channel, str(code)).inc()
        return HermesError(code, message, retryable=retry is not None, retry_after_seconds=retry)
