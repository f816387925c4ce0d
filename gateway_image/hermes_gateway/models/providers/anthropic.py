"""Anthropic's Messages API. The only importer of the `anthropic` package."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import anthropic
import httpx2

from hermes_contracts.errors import HermesError
from hermes_contracts.model_api import ModelEvent, ModelRequest
from hermes_gateway.models.providers.anthropic_reader import EventReader
from hermes_gateway.models.providers.anthropic_wire import to_wire
from hermes_gateway.models.providers.base import Clients, Media, relay
from hermes_gateway.models.providers.credentials import api_key
from hermes_gateway.models.providers.errors import ProviderError, from_exception
from hermes_gateway.models.providers.rules import from_answer
from hermes_gateway.models.target import Target


class AnthropicProvider:
    """Streams through `AsyncAnthropic` clients over one shared connection pool."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        def make(base_url: str, key: str) -> anthropic.AsyncAnthropic:
            return anthropic.AsyncAnthropic(
                base_url=base_url, api_key=key, http_client=http, max_retries=0, timeout=http.timeout
            )

        self._clients = Clients(make)

    async def stream(self, request: ModelRequest, target: Target, media: Media) -> AsyncGenerator[ModelEvent, None]:
        """Yield events of one call. Raises ProviderError."""
        key = api_key(target)
        try:
            body = to_wire(request, target, media)
            # The generic call, as the typed one walks the whole transcript to copy it and checks each event against a model.
            upstream = await self._clients.get(target.base_url, key).post(
                "/v1/messages", cast_to=object, body=body, stream=True, stream_cls=anthropic.AsyncStream[object]
            )
            async with upstream, aclosing(relay(upstream, EventReader(target.origin))) as events:
                async for event in events:
                    yield event
        except ProviderError:
            raise
        except anthropic.APIStatusError as error:
            kind, message = _said(error.body)
            raise from_answer(
                error.status_code,
                f"{kind} {message or error.message}",
                error.response.headers,
                quote=message,
                secrets=[key],
            ) from error
        except (anthropic.AnthropicError, httpx2.HTTPError, HermesError, ValueError, TypeError, OSError) as error:
            raise from_exception(error) from error


def _said(body: object) -> tuple[str, str]:
    """Return type and message of an error body, as far as it has them."""
    inner = body.get("error") if isinstance(body, Mapping) else None
    if not isinstance(inner, Mapping):
        return "", ""
    return str(inner.get("type", "")), str(inner.get("message", ""))
