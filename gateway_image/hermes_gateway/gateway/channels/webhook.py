"""`POST /webhooks/{route}`: a signed request becomes a message; 200 only when the bus has it on disk."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as HttpRoute

from hermes_contracts.access import WebhookRoute
from hermes_contracts.envelopes import Target
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.gateway import metrics
from hermes_gateway.gateway.channels.base import Arrival
from hermes_gateway.gateway.channels.webhook_reading import CHANNEL, INSTRUCTIONS, read_arrival
from hermes_gateway.gateway.hooks.direct import DirectDelivery
from hermes_gateway.gateway.hooks.payload import event_of, is_wanted, read_payload
from hermes_gateway.gateway.hooks.rate import RateLimits
from hermes_gateway.gateway.hooks.styles import problem_with
from hermes_gateway.gateway.ingest import Ingest, message_for, route_to
from hermes_gateway.gateway.profiles import ProfileCache
from hermes_gateway.gateway.web.errors import ApiError, from_hermes
from hermes_service import tracing

_PATH = re.compile(r"/webhooks/([a-z0-9][a-z0-9-]{0,62})")

Routes = Callable[[], Mapping[str, WebhookRoute]]


class WebhookChannel:
    """Takes webhooks."""

    def __init__(self, routes: Routes, profiles: ProfileCache, ingest: Ingest, direct: DirectDelivery) -> None:
        self._routes = routes
        self._profiles = profiles
        self._ingest = ingest
        self._direct = direct
        self._rates = RateLimits()

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
        problem = problem_with(route, headers, body, time.time())
        if problem is not None:
            metrics.SIGNATURES_REFUSED.labels(CHANNEL).inc()
            raise ApiError(401, problem, code="invalid_signature")
        self._count(route)
        payload = read_payload(body, headers.get("Content-Type", ""))
        if route.style == "slack" and payload.string_at("type") == "url_verification":
            return JSONResponse({"challenge": payload.string_at("challenge")})
        event = event_of(route.style, headers, payload)
        if not is_wanted(event, route.events):
            return JSONResponse({"accepted": False, "ignored": event or "(no event)"})
        arrival = read_arrival(route, headers, body, payload)
        traceparent = tracing.accept(headers.get("traceparent"))
        if route.deliver_only:
            had = await self._direct.deliver(route, arrival.update_id, arrival.text, traceparent)
            return JSONResponse({"accepted": True, "delivered": True, "duplicate": had})
        try:
            return await self._accept(route, arrival, traceparent)
        except HermesError as error:
            if error.code is ErrorCode.RATE_LIMIT:
                # The session is behind, not the sender too fast; some senders give up on a 429 and all try a 503 again.
                busy = error.retry_after_seconds
                raise ApiError(503, error.message, code="session_full", retry_after_seconds=busy) from error
            raise from_hermes(error) from error

    def _count(self, route: WebhookRoute) -> None:
        if route.requests_per_minute is None:
            return
        wait = self._rates.take(route.name, route.requests_per_minute, time.monotonic())
        if wait > 0:
            many = f"more than {route.requests_per_minute} requests a minute"
            raise ApiError(429, many, code="rate_limit_exceeded", retry_after_seconds=wait)

    async def _accept(self, route: WebhookRoute, arrival: Arrival, traceparent: str) -> Response:
        profile = self._profiles.get(route.namespace, route.profile)
        if profile is None or not profile.ready:
            # The sender did nothing wrong and will try again, so this is no 404.
            why = "is not ready" if profile is not None else "is not known (yet)"
            not_ready = f"the Profile {route.profile} of this webhook {why}"
            raise ApiError(503, not_ready, code="profile_not_ready", retry_after_seconds=10)
        owner = f"{CHANNEL}:{route.name}"
        facts = route_to(profile, owner, arrival.key)
        inbound = message_for(
            facts,
            update_id=arrival.update_id,
            text=arrival.text,
            sender=arrival.sender,
            instructions=INSTRUCTIONS if arrival.quoted else "",
        ).model_copy(update={"toolsets": route.toolsets, "deliver": _places(route, arrival)})
        accepted = await self._ingest.publish(facts, inbound, traceparent)
        return JSONResponse({"accepted": True, "session": accepted.sid, "duplicate": accepted.duplicate})


def _places(route: WebhookRoute, arrival: Arrival) -> tuple[Target, ...]:
    """Return where the answer goes; nothing for a route whose answers go back only."""
    if not route.deliver:
        return ()
    back = (Target(channel=CHANNEL, account=route.name, chat=arrival.key.chat),) if route.reply_url is not None else ()
    return (*route.deliver, *back)
