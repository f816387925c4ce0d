"""Sends a part of an answer to a webhook's reply address, signed as requests to us are."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import httpx

from hermes_contracts.access import WebhookRoute
from hermes_contracts.envelopes import HEADER_TRACE, Outbound
from hermes_gateway.gateway.channels.signatures import SIGNATURE, TIMESTAMP, sign
from hermes_gateway.gateway.delivery.backoff import Verdict, judge_status
from hermes_gateway.gateway.delivery.deliver import Attempt

Routes = Callable[[], Mapping[str, WebhookRoute]]


class WebhookSender:
    """Posts to addresses from the administrator's file. Redirects are not followed: they would be somebody else's choice."""

    def __init__(self, routes: Routes, *, timeout_seconds: float) -> None:
        self._routes = routes
        self._client = httpx.AsyncClient(
            timeout=timeout_seconds,
            follow_redirects=False,
            trust_env=False,
            limits=httpx.Limits(max_connections=64, max_keepalive_connections=32, keepalive_expiry=30),
        )
        self._timeout_seconds = timeout_seconds

    async def close(self) -> None:
        """Close connections."""
        await self._client.aclose()

    async def send(self, outbound: Outbound, attempt: Attempt) -> Verdict:
        """Make one attempt. Never raises for what the receiver does."""
        route = self._routes().get(outbound.account)
        if route is None:
            return Verdict("failed", f"the webhook {outbound.account} is not configured any more")
        if outbound.namespace and route.namespace != outbound.namespace:
            return Verdict("failed", f"the webhook {outbound.account} is not bound to this session's namespace")
        if route.reply_url is None:
            return Verdict("delivered", platform_message_id="none: the webhook has no reply_url")
        body = render_body(outbound)
        timestamp = int(time.time())
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": outbound.delivery_id,
            "Hermes-Delivery-Attempt": str(attempt.number),
            **({"Hermes-Delivery-Uncertain": "true"} if attempt.uncertain else {}),
            **({HEADER_TRACE: attempt.traceparent} if attempt.traceparent else {}),
            TIMESTAMP: str(timestamp),
            SIGNATURE: sign(route.secret, timestamp, body),
        }
        try:
            async with self._client.stream("POST", route.reply_url, content=body, headers=headers) as response:
                # Only the status counts; the body is left unread, whatever its size.
                return judge_status(response.status_code, response.headers.get("Retry-After"), datetime.now(UTC))
        except httpx.TimeoutException:
            return Verdict("retry", f"no answer within {self._timeout_seconds:g} s")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Verdict("retry", f"the connection failed: {type(error).__name__}")


def render_body(outbound: Outbound) -> bytes:
    """Return what the receiver gets."""
    shown: dict[str, object] = {
        "text": outbound.text,
        "session": outbound.sid,
        "turn": outbound.turn_id,
        "thread": outbound.chat,
        "part": outbound.part,
        "parts": outbound.parts,
        "delivery_id": outbound.delivery_id,
    }
    if (file := outbound.file) is not None:
        link = f"/api/sessions/{outbound.sid}/files/{file.id}"
        shown["file"] = {**file.model_dump(include={"id", "name", "media_type", "size"}), "path": link}
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode()
