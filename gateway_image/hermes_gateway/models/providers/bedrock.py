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
from hermes_gateway.models.providers.bedrock_whole import events_of, wants_whole
from hermes_gateway.models.providers.bedrock_wire import to_wire
from hermes_gateway.models.providers.errors import ProviderError, from_exception
from hermes_gateway.models.providers.rules import from_answer
from hermes_gateway.models.providers.shapes import Json, mapping
from hermes_gateway.models.target import ApiKey, AwsKeys, Credential, Target

SERVICE = "bedrock"
_MAX_ERROR_BYTES = 64 * 1024
_MAX_ANSWER_BYTES = 8 * 1024 * 1024


class BedrockProvider:
    """Streams over one shared connection pool."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def stream(self, request: ModelRequest, target: Target, media: Media) -> AsyncGenerator[ModelEvent, None]:
        """Yield events of one call. Raises ProviderError."""
        reader = ConverseReader(target.model, target.origin)
        try:
            body = to_wire(request, target, media)
            response = await self._http.send(self._request(body, target, "converse-stream"), stream=True)
            try:
                upstream = _events(response, secrets_of(target.credential))
                if response.status_code != 200:
                    kind, text = await _refused(response)
                    if not wants_whole(response.status_code, f"{kind} {text}"):
                        raise _refusal(response, kind, text, target)
                    upstream = self._whole(body, target)
                async with aclosing(upstream), aclosing(relay(upstream, reader)) as events:
                    async for event in events:
                        yield event
            finally:
                await response.aclose()
        except ProviderError:
            raise
        except (httpx2.HTTPError, httpx2.StreamError, HermesError, ParserError, ValueError, TypeError, OSError) as error:
            raise from_exception(error) from error

    async def _whole(self, body: Json, target: Target) -> AsyncGenerator[Mapping[str, object], None]:
        """Yield the events of a call that is not streamed. Raises ProviderError."""
        response = await self._http.send(self._request(body, target, "converse"), stream=True)
        try:
            if response.status_code != 200:
                raise _refusal(response, *await _refused(response), target)
            for event in events_of(mapping(json.loads(await _read(response, _MAX_ANSWER_BYTES)))):
                yield event
        finally:
            await response.aclose()

    def _request(self, body: Json, target: Target, call: str) -> httpx2.Request:
        url = f"{target.base_url.rstrip('/')}/model/{quote(target.model, safe='-._~')}/{call}"
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


async def _read(response: httpx2.Response, limit: int) -> bytes:
    """Return a body, or its start when it is longer than `limit` bytes."""
    data = b""
    async for part in response.aiter_bytes():
        data += part
        if len(data) > limit:
            break
    return data


async def _refused(response: httpx2.Response) -> tuple[str, str]:
    """Return the kind and the message of an error answer."""
    try:
        body = json.loads(await _read(response, _MAX_ERROR_BYTES))
    except ValueError:
        body = {}
    told = body if isinstance(body, dict) else {}
    kind = (response.headers.get("x-amzn-errortype") or str(told.get("__type") or "")).partition(":")[0]
    return kind, str(told.get("message") or told.get("Message") or "")


def _refusal(response: httpx2.Response, kind: str, text: str, target: Target) -> ProviderError:
    secrets = secrets_of(target.credential)
    return from_answer(response.status_code, f"{kind} {text}", response.headers, quote=text, secrets=secrets)
