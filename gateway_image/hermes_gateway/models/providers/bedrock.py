"""Amazon Bedrock's Converse. The only importer of `botocore`, which signs requests and reads AWS' event streams.

The bytes go over the connection pool that every provider uses: addresses are checked at connect, a cancelled call is closed
at once, and a stream costs no thread (docs/decisions/0006-bedrock-over-the-shared-pool.md).
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from urllib.parse import quote

import httpx2
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.eventstream import EventStreamBuffer, ParserError

from hermes_contracts.errors import HermesError
from hermes_contracts.model_api import ModelEvent, ModelRequest
from hermes_gateway.models.providers.base import Media, relay
from hermes_gateway.models.providers.bedrock_reader import ConverseReader
from hermes_gateway.models.providers.bedrock_wire import to_wire
from hermes_gateway.models.providers.errors import ProviderError, from_exception
from hermes_gateway.models.providers.rules import from_answer
from hermes_gateway.models.providers.shapes import Json
from hermes_gateway.models.target import ApiKey, AwsKeys, Credential, Target

SERVICE = "bedrock"
_MAX_ERROR_BYTES = 64 * 1024


class BedrockProvider:
    """Streams over one shared connection pool."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def stream(self, request: ModelRequest, target: Target, media: Media) -> AsyncGenerator[ModelEvent, None]:
        """Yield events of one call. Raises ProviderError."""
        reader = ConverseReader(target.model, target.origin)
        try:
            response = await self._http.send(self._request(to_wire(request, target, media), target), stream=True)
            try:
                if response.status_code != 200:
                    raise await _refusal(response, secrets_of(target.credential))
                upstream = _events(response, secrets_of(target.credential))
                async with aclosing(upstream), aclosing(relay(upstream, reader)) as events:
                    async for event in events:
                        yield event
            finally:
                await response.aclose()
        except ProviderError:
            raise
        except (httpx2.HTTPError, httpx2.StreamError, HermesError, ParserError, ValueError, TypeError, OSError) as error:
            raise from_exception(error) from error

    def _request(self, body: Json, target: Target) -> httpx2.Request:
        url = f"{target.base_url.rstrip('/')}/model/{quote(target.model, safe='-._~')}/converse-stream"
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        signed = AWSRequest("POST", url, headers={"Content-Type": "application/json"}, data=data)
        _sign(signed, target.credential)
        headers = {**dict(signed.headers.items()), "Accept": "application/vnd.amazon.eventstream"}
        return self._http.build_request("POST", url, headers=headers, content=data)


def _sign(request: AWSRequest, credential: Credential) -> None:
    if isinstance(credential, ApiKey):
        request.headers["Authorization"] = f"Bearer {credential.value}"
        return
    keys = Credentials(credential.access_key_id, credential.secret_access_key, credential.session_token)
    SigV4Auth(keys, SERVICE, credential.region).add_auth(request)


def secrets_of(credential: Credential) -> list[str]:
    """Return what must not appear in any message."""
    if isinstance(credential, AwsKeys):
        return [credential.secret_access_key, credential.session_token or "", credential.access_key_id]
    return [credential.value]


async def _events(response: httpx2.Response, secrets: list[str]) -> AsyncGenerator[Mapping[str, object], None]:
    """Yield events of an AWS event stream as `{kind: value}`; checksums are checked. Raises ProviderError."""
    buffer = EventStreamBuffer()
    raw: AsyncIterator[bytes] = response.aiter_bytes()
    async for data in raw:
        buffer.add_data(data)
        for message in buffer:
            headers = {name: str(value) for name, value in message.headers.items()}
            payload = json.loads(message.payload or b"{}")
            if headers.get(":message-type") == "event":
                yield {headers.get(":event-type", ""): payload}
                continue
            kind = headers.get(":exception-type") or headers.get(":error-code", "")
            text = str(payload.get("message") or "") if isinstance(payload, dict) else ""
            text = text or headers.get(":error-message", "")
            raise from_answer(200, f"{kind} {text}", {}, quote=text, secrets=secrets)


async def _refusal(response: httpx2.Response, secrets: list[str]) -> ProviderError:
    data = b""
    async for part in response.aiter_bytes():
        data += part
        if len(data) > _MAX_ERROR_BYTES:
            break
    try:
        body = json.loads(data)
    except ValueError:
        body = {}
    told = body if isinstance(body, dict) else {}
    kind = (response.headers.get("x-amzn-errortype") or str(told.get("__type") or "")).partition(":")[0]
    text = str(told.get("message") or told.get("Message") or "")
    return from_answer(response.status_code, f"{kind} {text}", response.headers, quote=text, secrets=secrets)
