"""Calls of the gateway. Every failure leaves as a CliError that says what to do."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Protocol

import httpx
from pydantic import SecretStr

from hermes_cli.errors import CliError, ExitCode, refused, unreachable, usage

API_VERSION = "1"
_CONNECT_SECONDS = 10.0
_READ_SECONDS = 30.0
HEARTBEAT_SECONDS = 45.0
"""The gateway sends something at least every 15 s; three missed ones are a dead connection."""
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 3.0
_WORTH_REPEATING = frozenset({429, 502, 503, 504})


class Endpoint(Protocol):
    """Where the gateway is: an address that may change while a conversation lasts."""

    async def url(self) -> str:
        """Return the address. Raises CliError."""

    async def broken(self) -> None:
        """Say that connections to the address fail."""


class Fixed:
    """An address that stays."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def url(self) -> str:
        """Return the address."""
        return self._url

    async def broken(self) -> None:
        """Nothing can be done about it."""


@dataclass(frozen=True)
class Probe:
    """What one look at an address found, whatever it was."""

    status: int
    text: str
    milliseconds: float
    clock_ahead_seconds: float | None
    """How far the gateway's clock is before ours; None when it does not say."""


class Api:
    """The API of one gateway, with one key. The key is sent as a header and written nowhere."""

    def __init__(self, endpoint: Endpoint, key: SecretStr, *, ca_file: Path | None = None) -> None:
        self._endpoint = endpoint
        timeout = httpx.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS)
        headers = {"Authorization": f"Bearer {key.get_secret_value()}", "User-Agent": "hermes-cli"}
        # A proxy for the world is none for loopback, where port-forwards are.
        loopback = {f"all://{host}": None for host in ("127.0.0.1", "localhost", "[::1]")}
        self._client = httpx.AsyncClient(
            headers=headers, timeout=timeout, verify=_authority(ca_file), mounts=loopback, follow_redirects=False
        )

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def url(self) -> str:
        """Return the address it talks to now."""
        return await self._endpoint.url()

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        wait_seconds: float = 0,
        patience_seconds: float = 0,
    ) -> Any:
        """Call and return the JSON of the answer; None when it has none.

        `wait_seconds` is how long the gateway itself may take. With `patience_seconds`, failures that may pass are
        tried again for so long: only for calls that may be repeated.
        """
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        timeout = httpx.Timeout(_READ_SECONDS + wait_seconds, connect=_CONNECT_SECONDS)
        deadline, pause = time.monotonic() + patience_seconds, _FIRST_PAUSE_SECONDS
        while True:
            try:
                url = await self._endpoint.url() + path
                response = await self._client.request(
                    method, url, json=body, params=params, headers=headers, timeout=timeout
                )
                if response.status_code not in _WORTH_REPEATING or time.monotonic() + pause > deadline:
                    return _read(response)
                pause = max(pause, _retry_after(response))
            except httpx.TransportError as error:
                await self._endpoint.broken()
                if time.monotonic() + pause > deadline:
                    raise _away(error, url) from error
            except CliError as error:
                if error.code is not ExitCode.UNREACHABLE or time.monotonic() + pause > deadline:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def fetch(self, path: str) -> bytes:
        """Return an answer's bytes. Raises CliError."""
        url = await self._endpoint.url() + path
        try:
            response = await self._client.get(url)
        except httpx.TransportError as error:
            await self._endpoint.broken()
            raise _away(error, url) from error
        if not response.is_success:
            _read(response)
        return response.content

    async def probe(self, path: str) -> Probe:
        """Look at an address once. Raises CliError when nobody answers."""
        url = await self._endpoint.url() + path
        started = time.perf_counter()
        try:
            response = await self._client.get(url)
        except httpx.TransportError as error:
            raise _away(error, url) from error
        took = (time.perf_counter() - started) * 1000
        return Probe(response.status_code, response.text, took, _clock_ahead(response.headers.get("date", "")))

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], headers: Mapping[str, str]
    ) -> AsyncIterator[httpx.Response]:
        """Open an event stream. Raises CliError, and httpx.TransportError once it is open."""
        url = await self._endpoint.url() + path
        timeout = httpx.Timeout(HEARTBEAT_SECONDS, connect=_CONNECT_SECONDS)
        try:
            response = await self._client.send(
                self._client.build_request("GET", url, params=params, headers=dict(headers), timeout=timeout), stream=True
            )
        except httpx.TransportError as error:
            await self._endpoint.broken()
            raise _away(error, url) from error
        try:
            if response.is_error:
                await response.aread()
                _read(response)
            yield response
        finally:
            await response.aclose()


def _authority(ca_file: Path | None) -> ssl.SSLContext | bool:
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(ca_file.expanduser()))
    except (OSError, ssl.SSLError) as error:
        raise usage(f"cannot use the authority in {ca_file}", str(error)) from error


def _read(response: httpx.Response) -> Any:
    if response.is_success:
        try:
            return response.json() if response.content else None
        except ValueError as error:
            raise unreachable("what answers there is no Hermes gateway", "check the address") from error
    raise explain(response.status_code, response.text)


def explain(status: int, text: str) -> CliError:
    """Turn an answer that is an error into one of ours."""
    message = _message(text)
    if status == 401:
        return refused(
            "the gateway does not know this key", "check HERMES_API_KEY_FILE, HERMES_API_KEY or the context's keyFile"
        )
    if status == 403:
        return refused(message or "the key may not do this", "ask for a key with the scope or Profile")
    if not message:
        return unreachable(f"what answers there is no Hermes gateway (status {status})", "check the address")
    if status >= 500:
        return unreachable(f"the gateway cannot work now: {message}", "try again, or see hermes doctor")
    return refused(message)


def _message(text: str) -> str:
    try:
        found = json.loads(text)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return ""
    return found[:1000] if isinstance(found, str) else ""


def _retry_after(response: httpx.Response) -> float:
    text = response.headers.get("retry-after", "")
    return min(float(text), _LONGEST_PAUSE_SECONDS) if text.isdigit() else 0.0


def _clock_ahead(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, TypeError):
        return None


def _away(error: httpx.TransportError, url: str) -> CliError:
    address = httpx.URL(url)
    where = f"{address.scheme}://{address.netloc.decode()}"
    if isinstance(error, httpx.ConnectTimeout | httpx.ReadTimeout | httpx.WriteTimeout):
        return unreachable(f"{where} does not answer in time", "check the address, or see hermes doctor")
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return unreachable(f"the certificate of {where} is not trusted", "give its authority as caFile of a context")
    reason = str(error) or type(error).__name__
    return unreachable(f"cannot reach {where} ({reason[:200]})", "check that it runs, or see hermes doctor")
