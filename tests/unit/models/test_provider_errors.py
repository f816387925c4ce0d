"""From what providers say to a reason: the words of many of them, and the numbers in these words."""

from __future__ import annotations

import httpx2
import pytest

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.models.providers.errors import HINTS, ProviderError, Reason, from_exception
from hermes_gateway.models.providers.limits import parse_retry_after
from hermes_gateway.models.providers.rules import RULES, from_answer, scrub

# What providers were seen to say; the words come first, so that a status used for two things is told apart.
SAID = [
    (400, "invalid_request_error prompt is too long: 210000 tokens > 200000 maximum", Reason.CONTEXT_OVERFLOW),
    (400, "context_length_exceeded", Reason.CONTEXT_OVERFLOW),
    (400, "ValidationException Input is too long for requested model.", Reason.CONTEXT_OVERFLOW),
    (400, "the request exceeds the available context size. try increasing the context size", Reason.CONTEXT_OVERFLOW),
    (400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length", Reason.CONTEXT_OVERFLOW),
    (413, "request_too_large Request exceeds the maximum size", Reason.PAYLOAD_TOO_LARGE),
    (413, "", Reason.PAYLOAD_TOO_LARGE),
    (429, "insufficient_quota You exceeded your current quota", Reason.BILLING),
    (400, "Your credit balance is too low", Reason.BILLING),
    (402, "This request requires more credits, or fewer max_tokens.", Reason.BILLING),
    (401, "", Reason.AUTH),
    (401, "account_deactivated", Reason.AUTH_PERMANENT),
    (400, "API key not valid. Please pass a valid API key.", Reason.AUTH),
    (403, "permission_error", Reason.AUTH),
    (403, "ExpiredTokenException The security token included in the request is expired", Reason.AUTH),
    (403, "AccessDeniedException You don't have access to the model with the specified model ID.", Reason.AUTH),
    (404, "", Reason.MODEL_NOT_FOUND),
    (404, "No endpoints found matching your data policy", Reason.PROVIDER_POLICY_BLOCKED),
    (404, "No endpoints found that support image input", Reason.IMAGES_UNSUPPORTED),
    (400, "model `gpt-9` does not exist", Reason.MODEL_NOT_FOUND),
    (400, "ValidationException The provided model identifier is invalid.", Reason.MODEL_NOT_FOUND),
    (408, "", Reason.TIMEOUT),
    (424, "ModelErrorException", Reason.SERVER_ERROR),
    (429, "The engine is currently overloaded", Reason.OVERLOADED),
    (429, "ModelNotReadyException", Reason.OVERLOADED),
    (429, "", Reason.RATE_LIMIT),
    (429, "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 33000.", Reason.LONG_CONTEXT_TIER),
    (429, "Extra usage is required for long context requests.", Reason.LONG_CONTEXT_TIER),
    (500, "", Reason.SERVER_ERROR),
    (500, "invalid_request_error messages.3: field required", Reason.FORMAT_ERROR),
    (503, "", Reason.OVERLOADED),
    (504, "", Reason.TIMEOUT),
    (529, "", Reason.OVERLOADED),
    (400, "content_policy_violation", Reason.CONTENT_POLICY_BLOCKED),
    (400, "Invalid `signature` in `thinking` block", Reason.THINKING_SIGNATURE),
    (
        400,
        "`thinking` blocks in the latest assistant message cannot be modified",
        Reason.THINKING_SIGNATURE,
    ),
    (400, "Function call is missing a thought_signature in functionCall parts.", Reason.THINKING_SIGNATURE),
    (
        400,
        "a final `assistant` message must start with a thinking block",
        Reason.REASONING_MANDATORY,
    ),
    (400, "Unsupported value: 'reasoning_effort' does not support 'minimal' with this model.", Reason.REASONING_MANDATORY),
    (400, "output_config.effort: Input should be 'low', 'medium', 'high' or 'max'", Reason.REASONING_MANDATORY),
    (400, "Reasoning is mandatory for this endpoint and cannot be disabled.", Reason.REASONING_MANDATORY),
    (
        400,
        "The encrypted content for item rs_1 could not be verified.",
        Reason.INVALID_ENCRYPTED_CONTENT,
    ),
    (
        400,
        "Item 'rs_1' was provided without its required following item.",
        Reason.INVALID_ENCRYPTED_CONTENT,
    ),
    (400, "image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes", Reason.IMAGE_TOO_LARGE),
    (400, "Could not process image", Reason.IMAGES_UNSUPPORTED),
    (400, "unknown variant `image_url`, expected `text`", Reason.IMAGES_UNSUPPORTED),
    (400, "error parsing grammar: unknown escape", Reason.SCHEMA_PATTERN),
    (400, "something else", Reason.FORMAT_ERROR),
    (307, "", Reason.NOT_A_PROVIDER),
    (200, "overloaded_error Overloaded", Reason.OVERLOADED),
    (200, "authentication_error", Reason.AUTH),
    (200, "what is this", Reason.UNKNOWN),
]


@pytest.mark.parametrize(("status", "words", "reason"), SAID)
def test_the_table(status: int, words: str, reason: Reason) -> None:
    error = from_answer(status, words, {})
    assert error.reason is reason
    assert error.code is HINTS[reason].code
    assert error.message[0].isupper() and error.message.endswith(".") and "\n" not in error.message


def test_every_reason_has_hints_and_a_sentence() -> None:
    assert set(HINTS) == set(Reason)
    for hints in HINTS.values():
        assert hints.message.endswith(".") and hints.message.count(". ") == 0
        assert not (hints.retryable and hints.should_compress), "the same call fails the same way until it is shorter"
        assert not (hints.retryable and hints.remedy)
    assert {rule.reason for rule in RULES} >= set(Reason) - {
        Reason.UNREACHABLE, Reason.CUT, Reason.ADDRESS_REFUSED, Reason.OUTPUT_ALLOWANCE, Reason.UNKNOWN,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "window"),
    [
        ("This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.", 128_000),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
        ("This model's maximum prompt length is 131072 but the request contains 140000 tokens.", 131_072),
        ("Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length", 32_768),
        ("request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", 4096),
        ("This endpoint's maximum context length is 200,000 tokens. However, you requested about 250000 tokens", 200_000),
        ("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 33000.", 30_000),
        ("input length and `max_tokens` exceed context limit: 210000 + 8000 > 200000, decrease input length", 200_000),
        ("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.", 272_000),
        ("Input validation error: `inputs` must have less than 8193 tokens. Given: 9000", 8193),
        ("Please reduce the length of the messages or completion. Current length is 70000 while limit is 65536", 65_536),
        ("Invalid request: Your request exceeded model token limit: 131072 (requested: 150000)", 131_072),
        (
            "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context "
            "length of only 4096 tokens, which is not enough.",
            4096,
        ),
        ("The decoder prompt (length 40000) is longer than the maximum model length of 32768.", 32_768),
        ("too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 8292.", 4081),
        ("The prompt is too long: 140000, model maximum context length: 131071", 131_071),
        ("Prompt exceeds max length", 0),
        ("context window exceeds limit (2013)", 0),
        ("input length exceeds the context length", 0),
        ("Your input exceeds the context window of this model.", 0),
        ("Input is too long for requested model. context window", 0),
        ("maximum context length is 99999999999999999999999999 tokens", 100_000_000),
    ],
)
def test_the_window_that_an_overflow_names(words: str, window: int) -> None:
    error = from_answer(400, words, {})
    assert error.code is ErrorCode.CONTEXT_OVERFLOW and error.hints.should_compress
    assert error.context_window == window


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        (
            "max_tokens is too large: 200000. This model supports at most 16384 completion tokens",
            16_384,
        ),
        ("max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens for claude-x", 64_000),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
        ("The maximum tokens you requested exceeds the model limit of 4096. Try again", 4096),
        ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease", 11_760),
        (
            "maximum context length is 32768 tokens. However, you asked for 40000 (30000 in the messages, 10000 in the",
            2768,
        ),
        ("maximum context length is 32768 tokens and your request has 30000 input tokens (10000 > 32768 - 30000)", 2768),
    ],
)
def test_too_long_an_answer_is_not_too_long_a_conversation(words: str, limit: int) -> None:
    error = from_answer(400, words, {})
    assert error.reason is Reason.OUTPUT_ALLOWANCE and error.max_output_tokens == limit
    assert not error.hints.should_compress


def test_when_the_conversation_alone_is_too_long_a_shorter_answer_does_not_help() -> None:
    words = "maximum context length is 8192 tokens. However, you requested 9000 tokens (8500 in the messages, 500 in the"
    assert from_answer(400, words, {}).reason is Reason.CONTEXT_OVERFLOW


def test_a_quote_is_short_and_holds_no_key() -> None:
    quote = "bad value my-key and sk-abcdefghijkl AKIAABCDEFGHIJKLMNOP\n" + "x" * 1000
    error = from_answer(400, "x", {}, quote=quote, secrets=["my-key", ""])
    for secret in ("my-key", "sk-abc", "AKIA", "\n"):
        assert secret not in error.message
    assert len(error.message) < 400 and "bad value" in error.message
    assert scrub("a  b\nc", []) == "a b c"


@pytest.mark.parametrize(
    ("headers", "words", "seconds"),
    [
        ({}, "", None),
        ({"retry-after": "20"}, "", 20.0),
        ({"retry-after": "0.5"}, "", 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, "", 1.5),
        ({"retry-after": "Thu, 01 Jan 1970 00:17:00 GMT"}, "", 20.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, "", 0.0),
        ({"retry-after": "-5"}, "", 0.0),
        ({"retry-after": "1e30"}, "", 86_400.0),
        ({"retry-after": "nan"}, "", None),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "3"}, "try again in 20s", 3.0),
        ({}, "Please try again in 20s. Visit", 20.0),
        ({}, "Please try again in 6m0s.", 360.0),
        ({}, "Please try again in 1h2m3.5s.", 3723.5),
        ({}, "Please try again in 340ms.", 0.34),
        ({}, "Please retry in 36.6s.", 36.6),
        ({}, "try again in a while", None),
        ({}, "try again in 1.2.3s", None),
    ],
)
def test_retry_after(headers: dict[str, str], words: str, seconds: float | None) -> None:
    assert parse_retry_after(headers, words, now=1000.0) == seconds


def test_retry_after_is_told_when_waiting_helps_this_call_or_this_key() -> None:
    assert from_answer(404, "", {"retry-after": "5"}).retry_after_seconds is None
    assert from_answer(429, "", {"retry-after": "5"}).retry_after_seconds == 5
    assert from_answer(402, "", {"retry-after": "5"}).retry_after_seconds == 5


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (httpx2.ReadTimeout("x"), Reason.TIMEOUT),
        (httpx2.ConnectTimeout("x"), Reason.TIMEOUT),
        (httpx2.ConnectError("x"), Reason.UNREACHABLE),
        (httpx2.RemoteProtocolError("x"), Reason.CUT),
        (httpx2.ReadError("x"), Reason.CUT),
        (HermesError(ErrorCode.FORBIDDEN, "x"), Reason.ADDRESS_REFUSED),
        (ProviderError(Reason.BILLING), Reason.BILLING),
        (ValueError("x"), Reason.UNKNOWN),
    ],
)
def test_the_first_cause_that_says_something_decides(inner: Exception, reason: Reason) -> None:
    outer = RuntimeError("wrapped")
    outer.__cause__ = inner
    assert from_exception(outer).reason is reason
    assert from_exception(inner).reason is reason
