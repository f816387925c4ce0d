"""Takes secrets out of text that goes to another model than the conversation's, or is written anew. Pure.

What stands in a secret's place cannot be mistaken for a value and used: models write masked values back into files.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from hermes_agent.compression.secret_patterns import BLOCKS, NAME, NAME_WORDS, NEVER_SECRET, PREFIXES

REMOVED = "[secret removed]"

_RUN = re.compile(r"[A-Za-z0-9_.:/+=-]{16,}")
"""Every token is within one of these."""


class _Patterns(NamedTuple):
    blocks: re.Pattern[str]
    tokens: re.Pattern[str]
    header: re.Pattern[str]
    bearer: re.Pattern[str]
    login: re.Pattern[str]
    query: re.Pattern[str]
    assigned: re.Pattern[str]


@cache
def _patterns() -> _Patterns:
    """Compile with the first use: start-up does not pay for it."""
    value = r"(\"[^\"\n]{4,400}\"|'[^'\n]{4,400}'|[^\s\"',;(){}\[\]<>]{6,400})"
    return _Patterns(
        blocks=re.compile("|".join(pattern for _, pattern in BLOCKS)),
        tokens=re.compile(r"(?<![A-Za-z0-9])(?:" + "|".join(pattern for _, pattern in PREFIXES) + ")"),
        header=re.compile(
            r"(?i)(\bauthorization\b[\"']?\s{0,5}[:=]\s{0,5}[\"']?(?:(?:bearer|basic|token|digest)\s{1,5})?)([^\s\"',;]{6,})"
        ),
        bearer=re.compile(r"(?i)(\bbearer\s{1,5})([A-Za-z0-9._~+/=-]{12,})"),
        login=re.compile(r"(?i)(\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"']{0,100}:)([^\s/@\"']{1,300})(@)"),
        query=re.compile(
            r"(?i)([?&](?:[a-z_-]{0,30}(?:key|token|secret|password|signature|sig|auth|code))=)([^&\s\"'#]{6,})"
        ),
        assigned=re.compile(rf"(?i)(?<![A-Za-z0-9])({NAME}[\"']?\s{{0,3}}(?:=>|:=|[:=])\s{{0,3}}|--{NAME}[= ])" + value),
    )


def redact(text: str) -> str:
    """Return the text with everything that looks like a secret replaced by `REMOVED`."""
    patterns = _patterns()
    if "-----BEGIN" in text:
        text = patterns.blocks.sub(REMOVED, text)
    text = _RUN.sub(_without_tokens, text)
    lower = text.lower()
    if "://" in text:
        text = patterns.login.sub(rf"\g<1>{REMOVED}\g<3>", text)
        text = patterns.query.sub(rf"\g<1>{REMOVED}", text)
    if "authorization" in lower or "bearer" in lower:
        text = patterns.header.sub(rf"\g<1>{REMOVED}", text)
        text = patterns.bearer.sub(rf"\g<1>{REMOVED}", text)
    # The search below is the dear one, and most text has none of these words.
    return patterns.assigned.sub(_assigned, text) if any(word in lower for word in NAME_WORDS) else text


def _without_tokens(run: re.Match[str]) -> str:
    return _patterns().tokens.sub(REMOVED, run[0])


def _assigned(match: re.Match[str]) -> str:
    value = match[2].strip("\"'")
    harmless = value.lower() in NEVER_SECRET or value.startswith(("$", "[secret", "os.", "env.", "process.")) or value == ""
    if harmless or set(value) <= {"*", "x", "X", "."}:
        return match[0]
    quote = match[2][0] if match[2][0] in "\"'" else ""
    return f"{match[1]}{quote}{REMOVED}{quote}"
