"""What Slack posts to us: events, slash commands, presses of buttons. Each is answered when what it says is on disk."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import parse_qsl

from slack_sdk.signature import Clock, SignatureVerifier
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route as HttpRoute

from hermes_contracts.access import SlackAccount
from hermes_contracts.errors import HermesError
from hermes_gateway.gateway import metrics
from hermes_gateway.gateway.channels.raw import Refused
from hermes_gateway.gateway.channels.slack.events import SlackEvents
from hermes_gateway.gateway.web.errors import ApiError
from hermes_service import tracing

_PATH = re.compile(r"/slack/([a-z0-9][a-z0-9-]{0,62})/(?:events|commands|presses)")
_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_WINDOW_SECONDS = 300

Accounts = Callable[[], Mapping[str, SlackAccount]]


class _Now(Clock):
    """Slack's verifier looks at a clock's `now`."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now

    def now(self) -> float:
        return self._now()


class SlackDoor:
    """The public addresses of all Slack accounts."""

    def __init__(self, accounts: Accounts, events: SlackEvents, now: Callable[[], float] = time.time) -> None:
        self._accounts = accounts
        self._take = events
        self._now = now

    def routes(self) -> Sequence[HttpRoute]:
        """Return `/slack/{name}/events`, `/slack/{name}/commands` and `/slack/{name}/presses`."""
        return [
            HttpRoute("/slack/{name}/events", self._events, methods=["POST"]),
            HttpRoute("/slack/{name}/commands", self._commands, methods=["POST"]),
            HttpRoute("/slack/{name}/presses", self._presses, methods=["POST"]),
        ]

    def serves(self, path: str) -> bool:
        """Tell whether a path belongs to an account."""
        match = _PATH.fullmatch(path)
        return match is not None and match.group(1) in self._accounts()

    async def _verified(self, request: Request) -> tuple[SlackAccount, bytes]:
        account = self._accounts().get(request.path_params["name"])
        if account is None:
            raise ApiError(404, "no such Slack account", code="not_found")
        body = await request.body()
        problem = problem_with(
            account.signing_secret,
            request.headers.get("X-Slack-Request-Timestamp"),
            request.headers.get("X-Slack-Signature"),
            body,
            self._now,
        )
        if problem is not None:
            metrics.SIGNATURES_REFUSED.labels("slack").inc()
            raise ApiError(401, problem, code="invalid_signature")
        return account, body

    async def _events(self, request: Request) -> Response:
        account, raw = await self._verified(request)
        body = _json_object(raw)
        if body.get("type") == "url_verification":
            return PlainTextResponse(str(body.get("challenge", ""))[:1000])
        if body.get("type") == "event_callback":
            try:
                await self._take.event(account, body, tracing.accept(request.headers.get("traceparent")))
            except HermesError as error:
                raise _try_again(error) from error
        return Response(status_code=200)

    async def _presses(self, request: Request) -> Response:
        account, raw = await self._verified(request)
        payload = _json_object(_form(raw).get("payload", "").encode())
        try:
            await self._take.press(account, payload, tracing.accept(request.headers.get("traceparent")))
        except HermesError as error:
            raise _try_again(error) from error
        return Response(status_code=200)

    async def _commands(self, request: Request) -> Response:
        account, raw = await self._verified(request)
        said = await self._take.command(account, _form(raw), tracing.accept(request.headers.get("traceparent")))
        if isinstance(said, Refused):
            raise ApiError(400, said.reason, code="invalid_value")
        return JSONResponse(said)


def problem_with(
    secret: str, timestamp: str | None, signature: str | None, body: bytes, now: Callable[[], float]
) -> str | None:
    """Say what is wrong with a signed request; None when all is well."""
    if timestamp is None or signature is None or not _TIMESTAMP.fullmatch(timestamp):
        return "X-Slack-Request-Timestamp or X-Slack-Signature is missing or malformed"
    try:
        valid = SignatureVerifier(secret, _Now(now)).is_valid(body, timestamp, signature)
    except (UnicodeDecodeError, TypeError):
        valid = False
    if valid:
        return None
    if abs(now() - int(timestamp)) > _WINDOW_SECONDS:
        return f"X-Slack-Request-Timestamp is more than {_WINDOW_SECONDS} s away from now"
    return "the signature does not match the body"


def _json_object(raw: bytes) -> dict[str, object]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "the body is not JSON", code="invalid_value") from error
    if not isinstance(found, dict):
        raise ApiError(400, "the body is not a JSON object", code="invalid_value")
    return found


def _form(raw: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(raw.decode(), keep_blank_values=True, max_num_fields=100))
    except ValueError as error:
        raise ApiError(400, "the body is not a form", code="invalid_value") from error


def _try_again(error: HermesError) -> ApiError:
    return ApiError(503, error.message, code=str(error.code), retry_after_seconds=error.retry_after_seconds)
