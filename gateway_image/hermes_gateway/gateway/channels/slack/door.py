"""What Slack posts to us: events and slash commands. Each is answered when what it says is on disk."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import parse_qsl

import structlog
from slack_sdk.signature import Clock, SignatureVerifier
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route as HttpRoute

from hermes_contracts.access import SlackAccount
from hermes_contracts.errors import HermesError
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_gateway.gateway.channels.pipeline import Pipeline
from hermes_gateway.gateway.channels.slack.mrkdwn import render_mrkdwn
from hermes_gateway.gateway.channels.slack.reading import Refused, read_command, read_event
from hermes_gateway.gateway.web.errors import ApiError
from hermes_service import tracing

log = structlog.get_logger()

_PATH = re.compile(r"/slack/([a-z0-9][a-z0-9-]{0,62})/(?:events|commands)")
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

    def __init__(self, accounts: Accounts, pipeline: Pipeline, now: Callable[[], float] = time.time) -> None:
        self._accounts = accounts
        self._pipeline = pipeline
        self._now = now

    def routes(self) -> Sequence[HttpRoute]:
        """Return `/slack/{name}/events` and `/slack/{name}/commands`."""
        return [
            HttpRoute("/slack/{name}/events", self._events, methods=["POST"]),
            HttpRoute("/slack/{name}/commands", self._commands, methods=["POST"]),
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
            raise ApiError(401, problem, code="invalid_signature")
        return account, body

    async def _events(self, request: Request) -> Response:
        account, raw = await self._verified(request)
        body = _json_object(raw)
        if body.get("type") == "url_verification":
            return PlainTextResponse(str(body.get("challenge", ""))[:1000])
        found: ChatMessage | Refused = Refused("not an event")
        if body.get("type") == "event_callback":
            found = read_event(account, body)
        if isinstance(found, Refused):
            log.debug("slack.ignored", account=account.name, reason=found.reason)
            return Response(status_code=200)
        try:
            await self._pipeline.take(found, account, tracing.accept(request.headers.get("traceparent")))
        except HermesError as error:
            raise _try_again(error) from error
        return Response(status_code=200)

    async def _commands(self, request: Request) -> Response:
        account, raw = await self._verified(request)
        message = read_command(account, _form(raw), f"{self._now():.6f}")
        if isinstance(message, Refused):
            raise ApiError(400, message.reason, code="invalid_value")
        try:
            said = await self._pipeline.take_command(message, account, tracing.accept(request.headers.get("traceparent")))
        except HermesError as error:
            # Slack shows nothing of a 503 and tries no command again: the person must do that.
            said = f"That did not work: {error.message}. Please try again."
        return JSONResponse({"response_type": "ephemeral", "text": render_mrkdwn(said)})


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
