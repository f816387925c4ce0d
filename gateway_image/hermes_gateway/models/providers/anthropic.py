"""Anthropic's Messages API. The only importer of the `anthropic` package."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

import anthropic
import httpx2

from hermes_contracts.errors import HermesError
from hermes_contracts.model_api import ModelEvent, ModelRequest
from hermes_gateway.models.providers.anthropic_wire import EventReader, to_wire
from hermes_gateway.models.providers.base import Clients, drain
from hermes_gateway.models.providers.errors import from_answer, from_exception, protocol_error
from hermes_gateway.models.targets import Target


class AnthropicProvider:
    """Streams through `AsyncAnthropic` clients over one shared connection pool."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        def make(base_url: str, api_key: str) -> anthropic.AsyncAnthropic:
            return anthropic.AsyncAnthropic(
                base_url=base_url, api_key=api_key, http_client=http, max_retries=0, timeout=http.timeout
            )

        self._clients = Clients(make)

    async def stream(self, request: ModelRequest, target: Target) -> AsyncGenerator[ModelEvent, None]:
        """Yield events of one call. Raises HermesError."""
        body = to_wire(request, target.model, request.max_output_tokens or target.max_output_tokens)
        reader = EventReader()
        try:
            # The generic call, as the typed one walks the whole transcript to copy it and checks each event against a model.
            upstream = await self._clients.get(target.base_url, target.api_key).post(
                "/v1/messages", cast_to=object, body=body, stream=True, stream_cls=anthropic.AsyncStream[object]
            )
            async with upstream:
                while not reader.complete and (event := await anext(upstream, None)) is not None:
                    for ours in reader.read(_checked(event)):
                        yield ours
                finish = reader.finish()
                if finish is None:
                    raise protocol_error("The provider's stream ended too early.")
                yield finish
                await drain(upstream)
        except HermesError:
            raise
        except anthropic.APIStatusError as error:
            kind, message = _said(error.body)
            raise from_answer(
                error.status_code,
                f"{kind} {message or error.message}",
                error.response.headers,
                quote=message,
                secret=target.api_key,
            ) from error
        except (anthropic.AnthropicError, httpx2.HTTPError, ValueError, TypeError, OSError) as error:
            raise from_exception(error) from error


def _said(body: object) -> tuple[str, str]:
    """Return type and message of an error body, as far as it has them."""
    inner = body.get("error") if isinstance(body, Mapping) else None
    if not isinstance(inner, Mapping):
        return "", ""
    return str(inner.get("type", "")), str(inner.get("message", ""))


def _checked(event: object) -> Mapping[str, object]:
    if not isinstance(event, Mapping):
        raise TypeError("expected an object")
    return event
