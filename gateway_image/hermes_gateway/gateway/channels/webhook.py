"""`POST /webhooks/{route}`: a signed request becomes a message; 200 only when the bus has it on disk."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as HttpRoute

from hermes_contracts.access import WebhookRoute
from hermes_contracts.envelopes import MAX_TEXT_CHARACTERS
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import RoutingKey
from hermes_gateway.gateway.channels.base import Arrival
from hermes_gateway.gateway.channels.signatures import SIGNATURE, TIMESTAMP, problem_with
from hermes_gateway.gateway.idempotency import parse_update_id
from hermes_gateway.gateway.ingest import Ingest, message_for, route_to
from hermes_gateway.gateway.profiles import ProfileCache
from hermes_gateway.gateway.web.errors import ApiError, from_hermes
from hermes_service import tracing

CHANNEL = "webhook"
DELIVERY_ID = "Hermes-Delivery-Id"
_PATH = re.compile(r"/webhooks/([a-z0-9][a-z0-9-]{0,62})")
_MAX_FIELD = 256

Routes = Callable[[], Mapping[str, WebhookRoute]]


class WebhookChannel:
    """Takes webhooks."""

    def __init__(self, routes: Routes, profiles: ProfileCache, ingest: Ingest) -> None:
        self._routes = routes
        self._profiles = profiles
        self._ingest = ingest

    def routes(self) -> Sequence[HttpRoute]:
        """Return `/webhooks/{name}`."""
        return [HttpRoute("/webhooks/{name}", self._receive, methods=["POST"])]

    def serves(self, path: str) -> bool:
        """Tell whether a path is a route's."""
        match = _PATH.fullmatch(path)
        return match is not None and match.group(1) in self._routes()

    async def _receive(self, request: Request) -> Response:
        route = self._routes().get(request.path_params["name"])
        if route is None:
            raise ApiError(404, "no such webhook", code="not_found")
        body, headers = await request.body(), request.headers
        problem = problem_with(
            route.secret,
            headers.get(TIMESTAMP),
            headers.get(SIGNATURE),
            body,
            now=time.time(),
            window_seconds=route.replay_window_seconds,
        )
        if problem is not None:
            raise ApiError(401, problem, code="invalid_signature")
        arrival = read_arrival(route.name, body, headers.get(DELIVERY_ID) or headers.get("Idempotency-Key"))
        try:
            return await self._accept(route, arrival, tracing.accept(headers.get("traceparent")))
        except HermesError as error:
            if error.code is ErrorCode.RATE_LIMIT:
                # The session is behind, not the sender too fast; some senders give up on a 429 and all try a 503 again.
                busy = error.retry_after_seconds
                raise ApiError(503, error.message, code="session_full", retry_after_seconds=busy) from error
            raise from_hermes(error) from error

    async def _accept(self, route: WebhookRoute, arrival: Arrival, traceparent: str) -> Response:
        profile = self._profiles.get(route.namespace, route.profile)
        if profile is None or not profile.ready:
            # The sender did nothing wrong and will try again, so this is no 404.
            why = "is not ready" if profile is not None else "is not known (yet)"
            not_ready = f"the Profile {route.profile} of this webhook {why}"
            raise ApiError(503, not_ready, code="profile_not_ready", retry_after_seconds=10)
        owner = f"{CHANNEL}:{route.name}"
        facts = route_to(profile, owner, arrival.key)
        inbound = message_for(facts, update_id=arrival.update_id, text=arrival.text, sender=arrival.sender)
        accepted = await self._ingest.publish(facts, inbound, traceparent)
        return JSONResponse({"accepted": True, "session": accepted.sid, "duplicate": accepted.duplicate})


def read_arrival(route: str, body: bytes, delivery_id: str | None) -> Arrival:
    """Make a message of a body: a JSON object with a `text`, or whatever else it is as text. Raises ApiError 400, 413."""
    if delivery_id is None:
        needed = f"{DELIVERY_ID} is required: the sender's own id of this delivery, the same when it tries again"
        raise ApiError(400, needed, code="missing_header", param=DELIVERY_ID)
    update_id = parse_update_id(delivery_id, DELIVERY_ID)
    try:
        raw = body.decode()
    except UnicodeDecodeError as error:
        raise ApiError(400, "the body is not UTF-8 text", code="invalid_value") from error
    fields = _structured(raw)
    text = fields.get("text", raw)
    if not text.strip():
        raise ApiError(400, "text: is empty", code="invalid_value", param="text")
    if len(text) > MAX_TEXT_CHARACTERS:
        raise ApiError(413, f"text: more than {MAX_TEXT_CHARACTERS} characters", code="request_too_large", param="text")
    try:
        key = RoutingKey(channel=CHANNEL, account=route, chat=fields.get("thread") or route)
    except ValidationError as error:
        raise ApiError(400, "thread: at most 256 characters", code="invalid_value", param="thread") from error
    return Arrival(key, update_id, text, fields.get("sender", ""))


def _structured(raw: str) -> dict[str, str]:
    """Return text, thread and sender of a JSON object that has a `text`; nothing for any other body."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict) or not isinstance(found.get("text"), str):
        return {}
    fields: dict[str, str] = {"text": found["text"]}
    for name in ("thread", "sender"):
        value = found.get(name)
        if value is None:
            continue
        if not isinstance(value, str) or len(value) > _MAX_FIELD:
            raise ApiError(400, f"{name}: must be text of at most {_MAX_FIELD} characters", code="invalid_value", param=name)
        fields[name] = value
    return fields
