"""The address that Telegram posts updates to. Each is answered when what it says is on disk."""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as HttpRoute

from hermes_contracts.errors import HermesError
from hermes_gateway.gateway import metrics
from hermes_gateway.gateway.channels.telegram.channel import Accounts
from hermes_gateway.gateway.channels.telegram.updates import TelegramUpdates
from hermes_gateway.gateway.web.errors import ApiError
from hermes_service import tracing

SECRET = "X-Telegram-Bot-Api-Secret-Token"
_PATH = re.compile(r"/telegram/([a-z0-9][a-z0-9-]{0,62})")


class TelegramDoor:
    """The public addresses of all accounts that have a secret."""

    def __init__(self, accounts: Accounts, updates: TelegramUpdates) -> None:
        self._accounts = accounts
        self._updates = updates

    def routes(self) -> Sequence[HttpRoute]:
        """Return `/telegram/{name}`."""
        return [HttpRoute("/telegram/{name}", self._update, methods=["POST"])]

    def serves(self, path: str) -> bool:
        """Tell whether a path belongs to an account."""
        match = _PATH.fullmatch(path)
        return match is not None and match.group(1) in self._accounts()

    async def _update(self, request: Request) -> Response:
        account = self._accounts().get(request.path_params["name"])
        if account is None or account.secret_token is None:
            raise ApiError(404, "no such Telegram account", code="not_found")
        given = request.headers.get(SECRET, "")
        if not hmac.compare_digest(given.encode(), account.secret_token.encode()):
            metrics.SIGNATURES_REFUSED.labels("telegram").inc()
            raise ApiError(401, f"{SECRET} is missing or wrong", code="invalid_signature")
        try:
            update = json.loads(await request.body())
        except (ValueError, RecursionError) as error:
            raise ApiError(400, "the body is not JSON", code="invalid_value") from error
        if not isinstance(update, dict):
            raise ApiError(400, "the body is not a JSON object", code="invalid_value")
        try:
            await self._updates.take_posted(account, update, tracing.accept(request.headers.get("traceparent")))
        except HermesError as error:
            raise ApiError(
                503, error.message, code=str(error.code), retry_after_seconds=error.retry_after_seconds
            ) from error
        return Response(status_code=200)
