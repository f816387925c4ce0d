"""The table from a provider's failure to our error."""

from __future__ import annotations

import httpx2
import pytest

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.models.providers.errors import RULES, from_answer, from_exception, parse_retry_after

# What providers were seen to say; the words come first, so that a status used for two things is told apart.
SAID = [
    (400, "invalid_request_error prompt is too long: 210000 tokens > 200000 maximum", ErrorCode.CONTEXT_OVERFLOW),
    (400, "context_length_exceeded", ErrorCode.CONTEXT_OVERFLOW),
    (413, "request_too_large Request exceeds the maximum size", ErrorCode.CONTEXT_OVERFLOW),
    (429, "insufficient_quota You exceeded your current quota", ErrorCode.BILLING),
    (400, "Your credit balance is too low", ErrorCode.BILLING),
    (402, "", ErrorCode.BILLING),
    (401, "", ErrorCode.AUTH),
    (403, "permission_error", ErrorCode.AUTH),
    (404, "", ErrorCode.MODEL_NOT_FOUND),
    (400, "model `gpt-9` does not exist", ErrorCode.MODEL_NOT_FOUND),
    (408, "", ErrorCode.TIMEOUT),
    (429, "The engine is currently overloaded", ErrorCode.OVERLOADED),
    (429, "", ErrorCode.RATE_LIMIT),
    (500, "", ErrorCode.SERVER_ERROR),
    (503, "", ErrorCode.OVERLOADED),
    (504, "", ErrorCode.TIMEOUT),
    (529, "", ErrorCode.OVERLOADED),
    (400, "content_policy_violation", ErrorCode.CONTENT_REFUSED),
    (400, "something else", ErrorCode.INVALID),
    (307, "", ErrorCode.PROVIDER_PROTOCOL),
    (200, "overloaded_error Overloaded", ErrorCode.OVERLOADED),
    (200, "authentication_error", ErrorCode.AUTH),
    (200, "what is this", ErrorCode.PROVIDER_PROTOCOL),
]


@pytest.mark.parametrize(("status", "words", "code"), SAID)
def test_the_table(status: int, words: str, code: ErrorCode) -> None:
    error = from_answer(status, words, {})
    assert error.code is code
    assert error.message[0].isupper() and error.message.endswith(".") and "\n" not in error.message


def test_messages_are_one_sentence_in_plain_words() -> None:
    for rule in RULES:
        assert rule.message.endswith(".") and rule.message.count(". ") == 0


def test_a_quote_is_short_and_holds_no_key() -> None:
    error = from_answer(400, "x", {}, quote="bad value my-key and sk-abcdefghijkl\n" + "x" * 1000, secret="my-key")
    assert "my-key" not in error.message and "sk-abc" not in error.message and "\n" not in error.message
    assert len(error.message) < 400 and "bad value" in error.message


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "20"}, 20.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Thu, 01 Jan 1970 00:17:00 GMT"}, 20.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "1e30"}, 86_400.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert parse_retry_after(headers, now=1000.0) == seconds


def test_retry_after_is_not_told_when_retrying_is_pointless() -> None:
    assert from_answer(401, "", {"retry-after": "5"}).retry_after_seconds is None
    assert from_answer(429, "", {"retry-after": "5"}).retry_after_seconds == 5


@pytest.mark.parametrize(
    ("inner", "code"),
    [
        (httpx2.ReadTimeout("x"), ErrorCode.TIMEOUT),
        (httpx2.ConnectTimeout("x"), ErrorCode.TIMEOUT),
        (httpx2.ConnectError("x"), ErrorCode.UNAVAILABLE),
        (httpx2.RemoteProtocolError("x"), ErrorCode.PROVIDER_PROTOCOL),
        (httpx2.ReadError("x"), ErrorCode.PROVIDER_PROTOCOL),
        (HermesError(ErrorCode.FORBIDDEN, "x"), ErrorCode.FORBIDDEN),
        (ValueError("x"), ErrorCode.PROVIDER_PROTOCOL),
    ],
)
def test_the_first_cause_that_says_something_decides(inner: Exception, code: ErrorCode) -> None:
    outer = RuntimeError("wrapped")
    outer.__cause__ = inner
    assert from_exception(outer).code is code
    assert from_exception(inner).code is code
