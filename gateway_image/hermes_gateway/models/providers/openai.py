"""OpenAI and everything compatible with its Chat Completions. The only importer of the `openai` package."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from urllib.parse import urlsplit

import httpx2
import openai

from hermes_contracts.errors import HermesError
from hermes_contracts.model_api import ModelEvent, ModelRequest
from hermes_gateway.models.providers.base import Clients, drain
from hermes_gateway.models.providers.errors import from_answer, from_exception, protocol_error
from hermes_gateway.models.providers.openai_wire import ChunkReader, to_wire
from hermes_gateway.models.targets import DEFAULT_URLS, Target

_OWN_HOST = urlsplit(DEFAULT_URLS["openai"]).hostname


class OpenAIProvider:
    """Streams through `AsyncOpenAI` clients over one shared connection pool."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        def make(base_url: str, api_key: str) -> openai.AsyncOpenAI:
            return openai.AsyncOpenAI(
                base_url=base_url, api_key=api_key, http_client=http, max_retries=0, timeout=http.timeout
            )

        self._clients = Clients(make)

    async def stream(self, request: ModelRequest, target: Target) -> AsyncGenerator[ModelEvent, None]:
        """Yield events of one call. Raises HermesError."""
        own = urlsplit(target.base_url).hostname == _OWN_HOST
        limit = request.max_output_tokens or target.max_output_tokens
        body = to_wire(request, target.model, limit, own_endpoint=own)
        reader = ChunkReader(f"call_{request.turn_id}_{request.step}")
        try:
            # The generic call, as the typed one walks the whole transcript to copy it and checks each chunk against a model.
            upstream = await self._clients.get(target.base_url, target.api_key).post(
                "/chat/completions", cast_to=object, body=body, stream=True, stream_cls=openai.AsyncStream[object]
            )
            async with upstream:
                while not reader.complete and (chunk := await anext(upstream, None)) is not None:
                    for event in reader.read(_checked(chunk)):
                        yield event
                finish = reader.finish()
                if finish is None:
                    raise protocol_error("The provider's stream ended too early.")
                yield finish
                await drain(upstream)
        except HermesError:
            raise
        except openai.APIStatusError as error:
            raise from_answer(
                error.status_code,
                f"{error.code} {error.type} {error.message}",
                error.response.headers,
                quote=error.message,
                secret=target.api_key,
            ) from error
        except openai.APIConnectionError as error:
            raise from_exception(error) from error
        except openai.APIError as error:
            raise from_answer(200, f"{error.code} {error.type} {error.message}", {}) from error
        except (openai.OpenAIError, httpx2.HTTPError, ValueError, TypeError, OSError) as error:
            raise from_exception(error) from error


def _checked(chunk: object) -> Mapping[str, object]:
    if not isinstance(chunk, Mapping):
        raise TypeError("expected an object")
    return chunk
