"""OpenAI and everything compatible: Chat Completions and Responses. The only importer of the `openai` package."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

import httpx2
import openai

from hermes_contracts.errors import HermesError
from hermes_contracts.model_api import ModelEvent, ModelRequest
from hermes_gateway.models.providers import chat_wire, responses_wire
from hermes_gateway.models.providers.base import Clients, Media, Reader, relay
from hermes_gateway.models.providers.chat_reader import ChunkReader
from hermes_gateway.models.providers.credentials import api_key
from hermes_gateway.models.providers.errors import ProviderError, from_exception
from hermes_gateway.models.providers.responses_reader import ResponsesReader
from hermes_gateway.models.providers.rules import from_answer
from hermes_gateway.models.providers.shapes import Json
from hermes_gateway.models.target import Target


class _Wire(Protocol):
    """One of the API's two formats."""

    path: str

    def body(self, request: ModelRequest, target: Target, media: Media) -> Json: ...

    def reader(self, request: ModelRequest, target: Target) -> Reader: ...


class _Chat:
    path = "/chat/completions"

    def body(self, request: ModelRequest, target: Target, media: Media) -> Json:
        return chat_wire.to_wire(request, target, media)

    def reader(self, request: ModelRequest, target: Target) -> Reader:
        return ChunkReader(f"call_{request.turn_id}_{request.step}", target.origin)


class _Responses:
    path = "/responses"

    def body(self, request: ModelRequest, target: Target, media: Media) -> Json:
        return responses_wire.to_wire(request, target, media)

    def reader(self, request: ModelRequest, target: Target) -> Reader:
        del request
        return ResponsesReader(target.origin)


class OpenAIProvider:
    """Streams through `AsyncOpenAI` clients over one shared connection pool."""

    def __init__(self, http: httpx2.AsyncClient, wire: _Wire) -> None:
        def make(base_url: str, key: str) -> openai.AsyncOpenAI:
            return openai.AsyncOpenAI(base_url=base_url, api_key=key, http_client=http, max_retries=0, timeout=http.timeout)

        self._clients = Clients(make)
        self._wire = wire

    async def stream(self, request: ModelRequest, target: Target, media: Media) -> AsyncGenerator[ModelEvent, None]:
        """Yield events of one call. Raises ProviderError."""
        key = api_key(target)
        try:
            body = self._wire.body(request, target, media)
            # The generic call, as the typed one walks the whole transcript to copy it and checks each chunk against a model.
            upstream = await self._clients.get(target.base_url, key).post(
                self._wire.path, cast_to=object, body=body, stream=True, stream_cls=openai.AsyncStream[object]
            )
            async with upstream, aclosing(relay(upstream, self._wire.reader(request, target))) as events:
                async for event in events:
                    yield event
        except ProviderError:
            raise
        except openai.APIStatusError as error:
            raise from_answer(
                error.status_code, _words(error), error.response.headers, quote=error.message, secrets=[key]
            ) from error
        except openai.APIConnectionError as error:
            raise from_exception(error) from error
        except openai.APIError as error:
            raise from_answer(200, _words(error), {}, quote=error.message, secrets=[key]) from error
        except (openai.OpenAIError, httpx2.HTTPError, HermesError, ValueError, TypeError, OSError) as error:
            raise from_exception(error) from error


def chat_completions(http: httpx2.AsyncClient) -> OpenAIProvider:
    """Make the provider for Chat Completions."""
    return OpenAIProvider(http, _Chat())


def responses(http: httpx2.AsyncClient) -> OpenAIProvider:
    """Make the provider for Responses."""
    return OpenAIProvider(http, _Responses())


def _words(error: openai.APIError) -> str:
    return f"{error.code} {error.type} {error.message}"
