"""Every way a provider says no, in its own words, and what the rest of the service learns of it."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from email.utils import formatdate
from time import time
from typing import Any

import pytest

from hermes_contracts.conversation import Message, ReasoningPart, Role, TextPart
from hermes_contracts.errors import ErrorCode
from hermes_contracts.providers import ApiMode
from hermes_gateway.models.addresses import guarded_client
from hermes_gateway.models.providers.errors import HINTS, ProviderError, Reason
from hermes_gateway.models.providers.loading import make_providers
from hermes_gateway.models.providers.remedies import repaired
from hermes_gateway.models.target import ApiKey
from scripted_model.http_server import Connection, Request
from tests.integration.models.provider_kit import (
    AWS,
    KEY,
    MODES,
    SECRETS,
    Kit,
    ask,
    raw_kit,
    script,
    scripted_kit,
    target,
    text,
)

ALL = pytest.mark.parametrize("mode", MODES)


@pytest.fixture
async def kit() -> AsyncIterator[Kit]:
    async with scripted_kit() as running:
        yield running


@ALL
@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ({"error": "auth"}, Reason.AUTH),
        ({"status": 403}, Reason.AUTH),
        ({"error": "billing"}, Reason.BILLING),
        ({"status": 402}, Reason.BILLING),
        ({"error": "rate_limit"}, Reason.RATE_LIMIT),
        ({"error": "overloaded"}, Reason.OVERLOADED),
        ({"status": 529}, Reason.OVERLOADED),
        ({"status": 503}, Reason.OVERLOADED),
        ({"error": "server_error"}, Reason.SERVER_ERROR),
        ({"status": 502}, Reason.SERVER_ERROR),
        ({"error": "context_overflow"}, Reason.CONTEXT_OVERFLOW),
        ({"error": "model_not_found"}, Reason.MODEL_NOT_FOUND),
        ({"error": "content_refused"}, Reason.CONTENT_POLICY_BLOCKED),
        ({"error": "payload_too_large"}, Reason.PAYLOAD_TOO_LARGE),
        ({"error": "output_allowance"}, Reason.OUTPUT_ALLOWANCE),
        ({"error": "invalid"}, Reason.FORMAT_ERROR),
        ({"status": 504}, Reason.TIMEOUT),
        ({"status": 307, "malformed": "html"}, Reason.NOT_A_PROVIDER),
        ({"say": "some", "error": "overloaded", "error_in_stream": True}, Reason.OVERLOADED),
        ({"say": "some", "error": "server_error", "error_in_stream": True}, Reason.SERVER_ERROR),
        ({"say": "some", "error": "rate_limit", "error_in_stream": True}, Reason.RATE_LIMIT),
        ({"say": "some", "error": "context_overflow", "error_in_stream": True}, Reason.CONTEXT_OVERFLOW),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else None,
)
async def test_each_failure_has_one_reason(kit: Kit, mode: ApiMode, step: dict[str, Any], reason: Reason) -> None:
    error = await kit.failure(mode, step)
    assert error.reason is reason
    assert (error.code, error.retryable) == (HINTS[reason].code, HINTS[reason].retryable)
    assert error.message[0].isupper() and "\n" not in error.message
    assert len(kit.memory.requests) == 1, "no layer below repeats a call"


@ALL
@pytest.mark.parametrize("step", [{"malformed": "html"}, {"say": "some text that is long", "chunk": 4, "malformed": "sse"}])
async def test_what_is_not_the_protocol_may_be_tried_again(kit: Kit, mode: ApiMode, step: dict[str, Any]) -> None:
    error = await kit.failure(mode, step)
    assert error.code is ErrorCode.PROVIDER_PROTOCOL and error.retryable


@ALL
async def test_pictures_and_thoughts_that_are_refused(kit: Kit, mode: ApiMode) -> None:
    assert (await kit.failure(mode, {"error": "image_refused"})).code is ErrorCode.IMAGE_REFUSED
    reason = (await kit.failure(mode, {"error": "reasoning_refused"})).reason
    openai = mode in ("chat_completions", "responses")
    assert reason is (Reason.INVALID_ENCRYPTED_CONTENT if openai else Reason.THINKING_SIGNATURE)


@ALL
async def test_numbers_in_complaints(kit: Kit, mode: ApiMode) -> None:
    openai = mode in ("chat_completions", "responses")
    error = await kit.failure(mode, {"error": "context_overflow"})
    assert error.context_window == (128_000 if openai else 200_000)
    error = await kit.failure(mode, {"error": "output_allowance"})
    assert error.max_output_tokens == {"anthropic_messages": 64_000, "bedrock_converse": 4096}.get(mode, 16_384)


@ALL
async def test_a_call_that_was_refused_works_once_it_is_repaired(kit: Kit, mode: ApiMode) -> None:
    thought = ReasoningPart(text="t", signature="s", data="d", item_id="i", origin=target(mode, 1).origin)
    answer = Message(role=Role.ASSISTANT, parts=(thought, TextPart(text="hello")))
    words = script({"error": "reasoning_refused", "times": 1}, {"say": "well"}, id="once")
    request, where = ask("hi", answer, words), target(mode, kit.port)
    try:
        await kit.events(mode, request)
    except ProviderError as error:
        change = repaired(request, where, error)
        assert change is not None
        assert text(await kit.events(mode, change[0])) == "well"
        assert repaired(change[0], where, error) is None, "once"
    else:
        raise AssertionError


@ALL
async def test_retry_after(kit: Kit, mode: ApiMode) -> None:
    error = await kit.failure(mode, {"status": 429, "headers": {"retry-after": "7"}})
    assert error.retry_after_seconds == 7
    error = await kit.failure(mode, {"error": "overloaded", "headers": {"retry-after-ms": "1500", "retry-after": "9"}})
    assert error.retry_after_seconds == 1.5
    date = formatdate(time() + 60, usegmt=True)
    error = await kit.failure(mode, {"error": "overloaded", "headers": {"retry-after": date}})
    assert error.retry_after_seconds is not None and 50 < error.retry_after_seconds <= 60
    error = await kit.failure(mode, {"status": 429, "message": "Please try again in 1m2.5s."})
    assert error.retry_after_seconds == 62.5


@ALL
async def test_no_secret_is_in_any_message(kit: Kit, mode: ApiMode) -> None:
    for status in (400, 401, 403, 429, 500):
        for in_stream in (False, True):
            step = {"status": 200 if in_stream else status, "error": "invalid", "error_in_stream": in_stream}
            error = await kit.failure(mode, {**step, "message": f"bad: {' '.join(SECRETS)}"})
            for secret in SECRETS[1:] if mode == "bedrock_converse" else SECRETS[:1]:
                assert secret not in error.message and secret not in repr(error.body())
    assert KEY not in repr(target("responses", 1)) and AWS.secret_access_key not in repr(target("bedrock_converse", 1))


@ALL
async def test_silence_is_a_timeout(mode: ApiMode) -> None:
    async with scripted_kit(idle_seconds=0.2) as kit:
        for place in ("headers", "start", "middle"):
            error = await kit.failure(mode, {"say": "firstsecond", "chunk": 5, "hang_seconds": 600, "hang_at": place})
            assert error.reason is Reason.TIMEOUT and "silent" in error.message


@ALL
async def test_a_provider_that_is_not_there(kit: Kit, mode: ApiMode) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        kit.port = taken.getsockname()[1]
    assert (await kit.failure(mode, {})).reason is Reason.UNREACHABLE


@ALL
async def test_a_private_address_is_not_connected_to(kit: Kit, mode: ApiMode) -> None:
    async with guarded_client([], connect_seconds=5, idle_seconds=5) as http:
        stream = make_providers(http)[mode].stream(ask("hello"), target(mode, kit.port), {})
        with pytest.raises(ProviderError) as caught:
            await anext(stream)
    assert caught.value.reason is Reason.ADDRESS_REFUSED and "no public address" in caught.value.message
    assert not kit.memory.requests


@ALL
async def test_the_wrong_kind_of_credential(kit: Kit, mode: ApiMode) -> None:
    if mode == "bedrock_converse":
        assert text(await kit.play(mode, {"say": "hi"}, credential=ApiKey("bedrock-key"))) == "hi"
        assert kit.asked().headers["authorization"] == "Bearer bedrock-key"
    else:
        assert (await kit.failure(mode, {}, credential=AWS)).reason is Reason.AUTH
        assert not kit.memory.requests


async def test_an_unsigned_call_to_bedrock_is_refused_as_aws_does() -> None:
    async def unsigned(request: Request, connection: Connection) -> None:
        headers = {"x-amzn-errortype": "MissingAuthenticationTokenException", "content-type": "application/json"}
        connection.send(403, headers, b'{"message":"Missing Authentication Token"}')

    async with raw_kit(unsigned) as kit:
        assert (await kit.failure("bedrock_converse", {})).reason is Reason.AUTH


async def test_a_huge_error_page_is_not_read_to_its_end() -> None:
    async def huge(request: Request, connection: Connection) -> None:
        connection.start(500, {"content-type": "text/html"})
        for _ in range(64):
            await connection.part(b"x" * 65_536)
        connection.end()

    async with raw_kit(huge) as kit:
        assert (await kit.failure("bedrock_converse", {})).reason is Reason.SERVER_ERROR
