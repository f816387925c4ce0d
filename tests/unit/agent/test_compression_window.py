"""The models service is asked how much a model can read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from hermes_agent.model.client import HttpModelClient
from hermes_agent.settings import ModelsToken
from hermes_contracts.errors import ErrorBody, ErrorCode, HermesError
from hermes_contracts.model_api import ModelInfo, Purpose

INFO = ModelInfo(
    provider="p", model="m", api_mode="responses", context_window=123_456, max_output_tokens=10, vision=False,
    reasoning=False, prompt_cache=True,
)  # fmt: skip


class Service:
    """Answers every request with `status` and `body`."""

    def __init__(self) -> None:
        self.status = 200
        self.body = INFO.model_dump_json().encode()
        self.heads: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        head = f"HTTP/1.1 {self.status} X\r\ncontent-length: {len(self.body)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + self.body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()


@pytest.fixture
async def service() -> AsyncIterator[tuple[Service, HttpModelClient]]:
    service = Service()
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    client = HttpModelClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", ModelsToken("secret"))
    yield service, client
    await client.close()
    server.close()
    await server.wait_closed()


async def test_the_window_is_what_the_service_says_of_the_model_of_turns(service: tuple[Service, HttpModelClient]) -> None:
    page, client = service
    assert await client.window() == 123_456
    assert await client.info(Purpose.COMPRESSION) == INFO
    assert page.heads[0].startswith("GET /v1/model?purpose=turn ") and "purpose=compression" in page.heads[1]
    assert "authorization: Bearer secret" in page.heads[0].replace("Authorization", "authorization")


async def test_errors_of_the_service_keep_their_code(service: tuple[Service, HttpModelClient]) -> None:
    page, client = service
    page.status = 404
    page.body = ErrorBody(code=ErrorCode.NOT_CONFIGURED, message="no model").model_dump_json().encode()
    with pytest.raises(HermesError) as caught:
        await client.window()
    assert caught.value.code is ErrorCode.NOT_CONFIGURED
    page.status, page.body = 200, b"{}"
    with pytest.raises(HermesError) as caught:
        await client.window()
    assert caught.value.code is ErrorCode.PROVIDER_PROTOCOL


async def test_a_service_that_is_not_there_is_an_error_of_ours() -> None:
    client = HttpModelClient("http://127.0.0.1:9", ModelsToken("secret"))
    with pytest.raises(HermesError) as caught:
        await client.window()
    assert caught.value.code is ErrorCode.UNAVAILABLE and "secret" not in str(caught.value)
    await client.close()
