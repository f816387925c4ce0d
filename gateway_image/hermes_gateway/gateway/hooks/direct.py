"""Texts of webhooks that go to chats as they are: no agent, no session, and the sender gets its 200 when every chat has it.

What a chat has is noted for a day under the delivery's id, so that a repetition sends only what is missing. A note that
says `sending` was left by a request that died: the chat is asked whether it has the text, where it can be asked.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping

import structlog
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.errors import KeyWrongLastSequenceError
from nats.js.kv import KeyValue

from hermes_contracts import names, subjects
from hermes_contracts.access import WebhookRoute
from hermes_contracts.envelopes import Outbound
from hermes_contracts.names import RoutingKey
from hermes_gateway.gateway import metrics
from hermes_gateway.gateway.delivery.backoff import Verdict
from hermes_gateway.gateway.delivery.deliver import Attempt, Send
from hermes_gateway.gateway.web.errors import ApiError
from hermes_gateway.text.split import split_markdown

log = structlog.get_logger()

_PART_CHARACTERS = 3_500
_DONE = b"delivered"
_ABANDONED_SECONDS = 60.0
_AWAY = ApiError(503, "the message bus does not answer; try again", code="unavailable", retry_after_seconds=2)


class DirectDelivery:
    """Sends texts of routes with `deliver_only`."""

    def __init__(self, js: JetStreamContext, senders: Mapping[str, Send]) -> None:
        self._js = js
        self._senders = senders
        self._bucket: KeyValue | None = None

    async def deliver(self, route: WebhookRoute, delivery: str, text: str, traceparent: str) -> bool:
        """Send a text to all of a route's chats; True when every one of them had it before.

        Raises ApiError: 502 when a chat refuses it, 503 when it is worth to send the same delivery again.
        """
        fresh = [await self._one(part, traceparent) for part in parts_of(route, delivery, text)]
        return not any(fresh)

    async def _one(self, outbound: Outbound, traceparent: str) -> bool:
        """Send one part unless the chat has it; return whether it was sent now."""
        try:
            bucket = await self._open()
            revision, uncertain = await self._claim(bucket, outbound.delivery_id)
            if revision is None:
                return False
            verdict = await self._send(outbound, Attempt(2 if uncertain else 1, uncertain, traceparent))
            if verdict.outcome == "delivered":
                await bucket.put(outbound.delivery_id, _DONE)
            elif verdict.outcome == "failed" or not uncertain:
                # The chat has said no: whoever tries again begins anew. Of an uncertain one it still is not known.
                await bucket.delete(outbound.delivery_id, last=revision)
        except (NatsError, TimeoutError) as error:
            log.info("webhook.direct_unavailable", error=str(error)[:200])
            raise _AWAY from error
        metrics.DELIVERIES.labels(outbound.channel, verdict.outcome).inc()
        if verdict.outcome == "delivered":
            return True
        where = f"the chat {outbound.chat[:64]!r} on {outbound.channel}"
        if verdict.outcome == "failed":
            raise ApiError(502, f"{where} did not take the text: {verdict.error}", code="delivery_failed")
        retry = verdict.retry_after_seconds or 5
        raise ApiError(503, f"{where} is not there: {verdict.error}", code="delivery_delayed", retry_after_seconds=retry)

    async def _claim(self, bucket: KeyValue, name: str) -> tuple[int | None, bool]:
        """Note that a part is being sent: the note's revision, and whether somebody before left it so. None: it was sent."""
        note = f"sending {time.time():.0f}".encode()
        try:
            return await bucket.create(name, note), False
        except KeyWrongLastSequenceError:
            entry = await bucket.get(name)
        if entry.value == _DONE:
            return None, False
        since = float((entry.value or b"0").split()[-1])
        if time.time() - since < _ABANDONED_SECONDS:
            busy = "this delivery is being sent; try again"
            raise ApiError(503, busy, code="delivery_in_progress", retry_after_seconds=_ABANDONED_SECONDS)
        return await bucket.update(name, note, last=entry.revision), True

    async def _send(self, outbound: Outbound, attempt: Attempt) -> Verdict:
        send = self._senders.get(outbound.channel)
        if send is None:
            return Verdict("failed", f"this gateway has no channel {outbound.channel[:32]!r}")
        return await send(outbound, attempt)

    async def _open(self) -> KeyValue:
        if self._bucket is None:
            self._bucket = await self._js.key_value(subjects.IDEMPOTENCY_BUCKET)
        return self._bucket


def parts_of(route: WebhookRoute, delivery: str, text: str) -> Iterator[Outbound]:
    """Return what every chat is sent, in order; ids are the same whenever a delivery comes again."""
    sid = names.session_id(route.namespace, route.profile, RoutingKey(channel="webhook", account=route.name))
    texts = split_markdown(text, _PART_CHARACTERS)
    for number, place in enumerate(route.deliver, 1):
        for part, piece in enumerate(texts, 1):
            # Beginning with 1: target 0 is where an agent's answer may have a preview.
            identity = "\0".join((route.namespace, route.name, delivery, str(number), str(part)))
            yield Outbound(
                delivery_id="hook-" + hashlib.sha256(identity.encode()).hexdigest(),
                sid=sid,
                turn_id="",
                part=part,
                parts=len(texts),
                channel=place.channel,
                account=place.account,
                chat=place.chat,
                thread=place.thread,
                text=piece,
                target=number,
                namespace=route.namespace,
            )
