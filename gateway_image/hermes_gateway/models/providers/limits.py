"""Numbers in what providers say: how much a model reads, how much it writes, how long to wait."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

MAX_RETRY_AFTER_SECONDS = 86_400.0
_MAX_TOKENS = 100_000_000

_N = r"(\d[\d,_]{0,15})"
_FLAGS = re.IGNORECASE | re.DOTALL


def _patterns(*texts: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(text, _FLAGS) for text in texts)


_WINDOW = _patterns(
    rf"maximum (?:context|prompt) length (?:is|of) {_N}",
    rf"\d tokens? > {_N} (?:token )?maximum",
    rf"exceeds the maximum number of tokens allowed \(?{_N}",
    rf"{_N} maximum context length",
    rf"context (?:size|window|length|limit)(?: of| is|:)? ?\(?(?:[\d,]+ \+ [\d,]+ > )?{_N}",
    rf"tokens per min[^:]*: limit {_N}",
    rf"must be <= {_N}",
    rf"configured limit of {_N}",
    rf"must have less than {_N} tokens",
    rf"while limit is {_N}",
    rf"model token limit: {_N}",
    rf"context length of only {_N}",
    rf"maximum model length of {_N}",
    rf"in the prompt cannot exceed {_N}",
)
_ANSWER = _patterns(
    rf"max_tokens: [\d,]+ > {_N}, which is the maximum allowed number of output tokens",
    rf"supports at most {_N} (?:completion|output) tokens",
    rf"valid range of max_(?:completion_)?tokens is \[\d+, ?{_N}\]",
    rf"maximum tokens you requested exceeds the model limit of {_N}",
    rf"max_(?:completion_|output_)?tokens\W.{{0,40}}(?:less than or equal to|at most|<=) `?{_N}",
)
# Limit, input: what is left may be asked for. The groups are named, as providers say them in either order.
_LEFT = _patterns(
    r"context limit: (?P<input>[\d,]+) \+ [\d,]+ > (?P<limit>[\d,]+)",
    r"maximum context length is (?P<limit>[\d,]+) tokens.{0,80}?\((?P<input>[\d,]+) in the messages, [\d,]+ in the",
    r"maximum context length is (?P<limit>[\d,]+) tokens and your request has (?P<input>[\d,]+) input tokens",
    r"must be <= (?P<limit>[\d,]+)\. given: (?P<input>[\d,]+) `inputs` tokens",
)
_WAIT = re.compile(
    r"(?:try again|retry) (?:in|after) (?:(?P<h>\d+)h)?(?:(?P<m>\d+)m(?!s))?(?:(?P<s>[\d.]+) ?(?P<unit>ms|s\b|seconds?))?",
    re.IGNORECASE,
)


def _number(text: str) -> int:
    return min(int(re.sub(r"\D", "", text) or 0), _MAX_TOKENS)


def window_limit(words: str) -> int:
    """Return the context window that an overflow complaint names, in tokens; 0 when it names none."""
    return next((_number(found.group(1)) for pattern in _WINDOW if (found := pattern.search(words))), 0)


def answer_limit(words: str) -> int | None:
    """Return the longest answer that a complaint about `max_tokens` allows, in tokens; None when it is no such complaint."""
    for pattern in _ANSWER:
        if found := pattern.search(words):
            return _number(found.group(1))
    for pattern in _LEFT:
        if found := pattern.search(words):
            left = _number(found["limit"]) - _number(found["input"])
            return left if left > 0 else None
    return None


def parse_retry_after(headers: Mapping[str, str], words: str, now: float) -> float | None:
    """Return the seconds to wait that a provider names: in a header (milliseconds, seconds or a date) or in its words.

    Never below 0 or above a day.
    """
    seconds: float | None = None
    try:
        if (value := headers.get("retry-after-ms")) is not None:
            seconds = float(value) / 1000
        elif (value := headers.get("retry-after")) is not None:
            try:
                seconds = float(value)
            except ValueError:
                seconds = parsedate_to_datetime(value).timestamp() - now
        else:
            seconds = _wait(words)
    except (ValueError, TypeError, OverflowError):
        return None
    if seconds is None or math.isnan(seconds):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


def _wait(words: str) -> float | None:
    found = _WAIT.search(words)
    if found is None or not any(found.group("h", "m", "s")):
        return None
    small = float(found["s"] or 0) / (1000 if (found["unit"] or "").lower() == "ms" else 1)
    return int(found["h"] or 0) * 3600 + int(found["m"] or 0) * 60 + small
