"""Streams as networks deliver them: split anywhere, cut anywhere, with an error in the middle."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes_contracts.errors import ErrorCode
from hermes_contracts.model_api import Finish, FinishReason, ModelEvent, ReasoningDelta
from hermes_contracts.providers import ApiMode
from hermes_gateway.models.providers.errors import ProviderError, Reason
from scripted_model.http_server import Connection, Request
from tests.integration.models.provider_kit import MODES, Kit, ask, calls, raw_kit, text, thoughts
from tests.integration.models.provider_payloads import (
    ANSWERS,
    CALLS,
    CONTENT_TYPES,
    SECRET_THOUGHT,
    SHORT,
    TEXT,
    THOUGHT,
    converse_event,
    frame,
)

ALL = pytest.mark.parametrize("mode", MODES)


class Speaker:
    """Sends bytes in the given parts, then ends well, or drops the connection."""

    def __init__(self, mode: ApiMode) -> None:
        self.mode = mode
        self.parts: list[bytes] = []
        self.ends = "well"

    async def handle(self, request: Request, connection: Connection) -> None:
        headers = {"content-type": CONTENT_TYPES[self.mode]}
        if self.ends == "silently":  # as a proxy does that speaks HTTP/1.0: the end of the connection is the end of the body
            connection.send_head(200, {**headers, "connection": "close"})
            connection.write(b"".join(self.parts))
            connection.close()
            return
        connection.start(200, headers)
        for part in self.parts:
            await connection.part(part)
        if self.ends == "well":
            connection.end()
        else:
            connection.close()


def _check_whole(mode: ApiMode, events: list[ModelEvent]) -> None:
    assert thoughts(events) == THOUGHT and text(events) == TEXT and calls(events) == CALLS
    end = events[-1]
    assert isinstance(end, Finish) and end.reason is FinishReason.TOOL_CALLS
    assert (end.usage.input_tokens, end.usage.output_tokens, end.usage.cached_input_tokens) == (100, 20, 60)
    assert end.usage.reasoning_tokens == (8 if mode in ("chat_completions", "responses") else 0)
    assert end.usage.cache_write_tokens == (30 if mode in ("anthropic_messages", "bedrock_converse") else 0)
    ends = [(e.signature, e.data, e.item_id) for e in events if isinstance(e, ReasoningDelta) and (e.signature or e.data)]
    signed = [("signed", None, None), (None, SECRET_THOUGHT, None)]
    assert ends == {
        "chat_completions": [], "responses": [(None, SECRET_THOUGHT, "rs_1")], "anthropic_messages": signed,
        "bedrock_converse": signed,
    }[mode]  # fmt: skip


def _check_short(events: list[ModelEvent]) -> None:
    assert text(events) == TEXT and calls(events) == CALLS[:1]
    end = events[-1]
    assert isinstance(end, Finish) and end.reason is FinishReason.TOOL_CALLS
    assert (end.usage.input_tokens, end.usage.output_tokens) == (100, 20)


@ALL
async def test_a_stream_split_at_any_byte_is_the_same_stream(mode: ApiMode) -> None:
    speaker, answer = Speaker(mode), ANSWERS[mode]
    async with raw_kit(speaker.handle) as kit:
        for at in range(1, len(answer), 29):
            speaker.parts = [answer[:at], answer[at:]]
            _check_whole(mode, await kit.events(mode, ask("x")))
        for at in range(1, len(SHORT[mode])):
            speaker.parts = [SHORT[mode][:at], SHORT[mode][at:]]
            _check_short(await kit.events(mode, ask("x")))
        speaker.parts = [bytes([byte]) for byte in answer]
        _check_whole(mode, await kit.events(mode, ask("x")))


async def _cut(kit: Kit, mode: ApiMode) -> tuple[list[ModelEvent], ProviderError | None]:
    events: list[ModelEvent] = []
    try:
        events += await kit.events(mode, ask("x"))
    except ProviderError as error:
        return events, error
    return events, None


@ALL
async def test_a_stream_cut_at_any_byte_is_never_taken_for_a_whole_one(mode: ApiMode) -> None:
    speaker, answer = Speaker(mode), SHORT[mode]
    speaker.ends = "cut"
    whole = 0
    async with raw_kit(speaker.handle) as kit:
        for at in range(len(answer)):
            speaker.parts = [answer[:at]]
            events, error = await _cut(kit, mode)
            if error is None:
                # All that counts was there; only what closes the stream was lost.
                whole += 1
                _check_short(events)
                assert at > len(answer) - 20
            else:
                assert whole == 0 and error.retryable and error.hints.should_fallback, (at, error)
                assert error.code is ErrorCode.PROVIDER_PROTOCOL


@ALL
async def test_a_body_that_merely_stops_is_cut_too(mode: ApiMode) -> None:
    speaker, answer = Speaker(mode), ANSWERS[mode]
    speaker.ends = "silently"
    async with raw_kit(speaker.handle) as kit:
        for at in range(0, len(answer), 13):
            speaker.parts = [answer[:at]]
            events, error = await _cut(kit, mode)
            if error is not None:
                assert error.retryable and error.code is ErrorCode.PROVIDER_PROTOCOL
                continue
            # Compatible servers may end without numbers; that the model had finished is known nevertheless.
            assert calls(events) == CALLS and isinstance(events[-1], Finish)
            assert mode == "chat_completions" or at > len(answer) - 20
        speaker.parts = [answer]
        _check_whole(mode, await kit.events(mode, ask("x")))


def _sse_event(event: dict[str, Any], name: str | None = None) -> bytes:
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(event).encode() + b"\n\n"


def _responses_failure(code: str, message: str) -> bytes:
    error = {"code": code, "message": message}
    event = {"type": "response.failed", "sequence_number": 9, "response": {"status": "failed", "error": error}}
    return _sse_event(event, "response.failed")


def _exception(kind: str, message: str) -> bytes:
    payload = json.dumps({"message": message}).encode()
    return frame(payload, exception_type=kind, content_type="application/json", message_type="exception")


def _anthropic_failure(kind: str, message: str) -> bytes:
    return _sse_event({"type": "error", "error": {"type": kind, "message": message}}, "error")


def _chat_failure(**error: object) -> bytes:
    return _sse_event({"error": error})


_TOO_LONG = "Your input exceeds the context window of this model."
_WAIT = "Rate limit reached. Please try again in 1.5s."
_NAMELESS = frame(b"", message_type="error", error_code="InternalError", error_message="x")
IN_STREAM: list[tuple[ApiMode, bytes, Reason]] = [
    ("chat_completions", _chat_failure(message="Overloaded", type="overloaded", code=502), Reason.OVERLOADED),
    ("chat_completions", _chat_failure(message="Internal", type="server_error"), Reason.SERVER_ERROR),
    ("chat_completions", _chat_failure(message="Slow down", code="rate_limit_exceeded"), Reason.RATE_LIMIT),
    ("responses", _responses_failure("server_error", "An error occurred."), Reason.SERVER_ERROR),
    ("responses", _responses_failure("rate_limit_exceeded", _WAIT), Reason.RATE_LIMIT),
    ("responses", _responses_failure("context_length_exceeded", _TOO_LONG), Reason.CONTEXT_OVERFLOW),
    ("responses", _sse_event({"type": "error", "code": "server_error", "message": "Oops"}, "error"), Reason.SERVER_ERROR),
    ("anthropic_messages", _anthropic_failure("overloaded_error", "Overloaded"), Reason.OVERLOADED),
    ("anthropic_messages", _anthropic_failure("api_error", "Internal server error"), Reason.SERVER_ERROR),
    ("bedrock_converse", _exception("throttlingException", "Too many tokens, please wait."), Reason.RATE_LIMIT),
    ("bedrock_converse", _exception("internalServerException", "Unexpected error."), Reason.SERVER_ERROR),
    ("bedrock_converse", _exception("modelStreamErrorException", "Model stopped."), Reason.SERVER_ERROR),
    ("bedrock_converse", _exception("serviceUnavailableException", "Try later."), Reason.OVERLOADED),
    ("bedrock_converse", _exception("validationException", "Malformed input request."), Reason.FORMAT_ERROR),
    ("bedrock_converse", _NAMELESS, Reason.SERVER_ERROR),
]


@pytest.mark.parametrize(("mode", "event", "reason"), IN_STREAM, ids=range(len(IN_STREAM)))
async def test_an_error_inside_a_stream_is_told_apart(mode: ApiMode, event: bytes, reason: Reason) -> None:
    speaker = Speaker(mode)
    boundary = ANSWERS[mode].index(b"\n\n") + 2 if mode != "bedrock_converse" else 0
    begun = ANSWERS[mode][:boundary] or converse_event("messageStart", {"role": "assistant"})
    speaker.parts = [begun, event]
    async with raw_kit(speaker.handle) as kit:
        _, error = await _cut(kit, mode)
        assert error is not None and error.reason is reason, error and error.reason


@ALL
async def test_bytes_that_are_not_the_protocol(mode: ApiMode) -> None:
    speaker = Speaker(mode)
    async with raw_kit(speaker.handle) as kit:
        for nonsense in (b"<html>nginx</html>\n", b'data: {"choices": \n\n', b"data: []\n\n", b"data: 5\n\n", b"\x00" * 64):
            speaker.parts = [nonsense]
            _, error = await _cut(kit, mode)
            assert error is not None and error.code is ErrorCode.PROVIDER_PROTOCOL and error.retryable, nonsense


async def test_a_frame_with_a_wrong_checksum_is_refused() -> None:
    answer = bytearray(ANSWERS["bedrock_converse"])
    at = answer.index(TEXT.encode())
    answer[at] ^= 1
    speaker = Speaker("bedrock_converse")
    speaker.parts = [bytes(answer)]
    async with raw_kit(speaker.handle) as kit:
        _, error = await _cut(kit, "bedrock_converse")
        assert error is not None and error.code is ErrorCode.PROVIDER_PROTOCOL
