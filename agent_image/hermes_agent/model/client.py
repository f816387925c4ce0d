"""The models service over HTTP: one POST a call, answered by one event a line."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

import httpx
from pydantic import ValidationError

from hermes_agent.model.base import ModelCall
from hermes_agent.settings import ModelsToken
from hermes_contracts.errors import ErrorBody, ErrorCode, HermesError
from hermes_contracts.model_api import (
    CONTENT_TYPE,
    MODEL_EVENT,
    MODEL_PATH,
    STREAM_PATH,
    Finish,
    ModelError,
    ModelEvent,
    ModelInfo,
    Purpose,
)
from hermes_service import tracing

CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 45.0
"""The service sends a heartbeat every 10 s; longer silence is a dead connection."""
END_OF_BODY_SECONDS = 0.25
MAX_LINE_BYTES = 1024 * 1024
_MAX_WHOLE_BYTES = 64 * 1024


class HttpModelClient:
    """Keeps one warm connection; the token may be replaced at any time."""

    def __init__(self, base_url: str, token: ModelsToken, *, silence_seconds: float = SILENCE_SECONDS) -> None:
        self._token = token
        self._base_url = base_url.rstrip("/")
        timeout = httpx.Timeout(silence_seconds, connect=CONNECT_SECONDS)
        limits = httpx.Limits(max_connections=4, max_keepalive_connections=2, keepalive_expiry=55)
        # Where no TLS is spoken no authorities are loaded: that takes longer than everything else here together.
        verify = self._base_url.startswith("https:")
        self._http = httpx.AsyncClient(
            timeout=timeout, limits=limits, trust_env=False, follow_redirects=False, verify=verify
        )

    async def close(self) -> None:
        """Close connections."""
        await self._http.aclose()

    async def warm_up(self) -> None:
        """Have everything loaded that the first call would load. What the service says to it does not matter."""
        with contextlib.suppress(httpx.HTTPError):
            await self._http.get(self._base_url + "/")

    async def info(self, purpose: Purpose, chosen: str = "") -> ModelInfo:
        """Return what is known of the model that serves a purpose, where a person chose one. Raises HermesError."""
        url, headers = self._base_url + MODEL_PATH, {"authorization": f"Bearer {self._token.value}"}
        try:
            params = {"purpose": purpose.value} | ({"model": chosen} if chosen else {})
            async with self._http.stream("GET", url, params=params, headers=headers) as response:
                if response.status_code != 200:
                    raise await _error_of(response)
                return ModelInfo.model_validate_json(await _start_of(response))
        except httpx.HTTPError as error:
            raise _unusable(error) from error
        except ValidationError as error:
            raise HermesError(ErrorCode.PROVIDER_PROTOCOL, "the models service described no model") from error

    async def window(self) -> int:
        """Return the context window of the model that serves turns, in tokens. Raises HermesError."""
        return (await self.info(Purpose.TURN)).context_window

    async def stream(self, call: ModelCall) -> AsyncGenerator[ModelEvent, None]:
        """Yield events as they come. Raises HermesError."""
        headers = {
            "authorization": f"Bearer {self._token.value}",
            "content-type": "application/json",
            "accept": CONTENT_TYPE,
        }
        if traceparent := tracing.current():
            headers["traceparent"] = traceparent
        try:
            async with self._http.stream(
                "POST", self._base_url + STREAM_PATH, content=call.body(), headers=headers
            ) as response:
                if response.status_code != 200:
                    raise await _error_of(response)
                lines = _lines(response)
                async for line in lines:
                    event = MODEL_EVENT.validate_json(line)
                    yield event
                    if isinstance(event, Finish | ModelError):
                        break
                with contextlib.suppress(TimeoutError):
                    # A body read to its end leaves the connection warm for the next call.
                    async with asyncio.timeout(END_OF_BODY_SECONDS):
                        async for _ in lines:
                            pass
        except httpx.HTTPError as error:
            raise _unusable(error) from error
        except ValidationError as error:
            raise HermesError(
                ErrorCode.PROVIDER_PROTOCOL, "the models service sent an event that is not in its protocol", retryable=True
            ) from error


def _unusable(error: httpx.HTTPError) -> HermesError:
    if isinstance(error, httpx.TimeoutException):
        return HermesError(ErrorCode.TIMEOUT, "the models service is silent", retryable=True)
    return HermesError(ErrorCode.UNAVAILABLE, "the models service cannot be reached", retryable=True)


async def _lines(response: httpx.Response) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in response.aiter_raw():
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise HermesError(ErrorCode.PROVIDER_PROTOCOL, "the models service sent a line that is too long")
        for line in lines:
            if line:
                yield line
    if rest.strip():
        yield rest


async def _start_of(response: httpx.Response) -> bytes:
    data = b""
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > _MAX_WHOLE_BYTES:
            break
    return data[:_MAX_WHOLE_BYTES]


async def _error_of(response: httpx.Response) -> HermesError:
    try:
        return HermesError.from_body(ErrorBody.model_validate_json(await _start_of(response)))
    except ValidationError:
        retryable = response.status_code in {408, 425, 429} or response.status_code >= 500
        return HermesError(ErrorCode.UNAVAILABLE, f"the models service answered {response.status_code}", retryable=retryable)
