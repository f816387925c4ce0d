"""Asks an OAuth token endpoint for a new access token (RFC 6749, section 6)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import httpx2

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.models.provider_secret import OAuthLogin
from hermes_gateway.models.providers.errors import ProviderError, Reason

REQUEST_SECONDS = 30.0
_MAX_BYTES = 64 * 1024
_MAX_TOKEN = 16_384
_DEFAULT_SECONDS = 300.0
_LONGEST_SECONDS = 30 * 86_400.0


@dataclass(frozen=True)
class Renewed:
    """What the endpoint gave. `refresh_token` is empty when the old one stays; `seconds` is how long the token lives."""

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    seconds: float


class TokenEndpoint:
    """Renews logins over the guarded client: addresses are checked and redirects are not followed."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def renew(self, login: OAuthLogin, refresh_token: str) -> Renewed:
        """Return a new access token. Raises ProviderError AUTH_PERMANENT when the login has ended, else UNAVAILABLE."""
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": login.client_id}
        if login.client_secret is not None:
            form["client_secret"] = login.client_secret
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                status, body = await self._post(login.token_url, form)
        except HermesError:
            raise
        except (httpx2.HTTPError, TimeoutError, OSError) as error:
            raise _away("does not answer") from error
        return read_answer(status, body)

    async def _post(self, url: str, form: dict[str, str]) -> tuple[int, bytes]:
        timeout = httpx2.Timeout(REQUEST_SECONDS)
        headers = {"accept": "application/json"}
        async with self._http.stream("POST", url, data=form, headers=headers, timeout=timeout) as response:
            body = bytearray()
            async for part in response.aiter_bytes():
                body += part
                if len(body) > _MAX_BYTES:
                    raise _away("answers with too much")
            return response.status_code, bytes(body)


def read_answer(status: int, body: bytes) -> Renewed:
    """Read an endpoint's answer. Raises HermesError; nothing of the answer is in its message."""
    try:
        answer: Any = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise _away(f"answers with status {status} and no JSON object")
    if status in (400, 401, 403) and answer.get("error") in ("invalid_grant", "invalid_client", "unauthorized_client"):
        raise ProviderError(
            Reason.AUTH_PERMANENT, "The provider does not accept the login any more: log in again and renew the Secret."
        )
    if status != 200:
        raise _away(f"answers with status {status}")
    access, refresh = _token(answer.get("access_token")), answer.get("refresh_token")
    seconds = answer.get("expires_in", _DEFAULT_SECONDS)
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= _LONGEST_SECONDS:
        seconds = _DEFAULT_SECONDS
    return Renewed(access, _token(refresh) if refresh else "", float(seconds))


def _token(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_TOKEN or not value.isascii() or not value.isprintable():
        raise _away("gives no token")
    return value


def _away(how: str) -> HermesError:
    return HermesError(ErrorCode.UNAVAILABLE, f"The login cannot be renewed: its token endpoint {how}.", retryable=True)
