"""When to try again, and what an HTTP answer means for a delivery. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

_BASE_SECONDS = 2.0
_MAX_SECONDS = 300.0
_MAX_RETRY_AFTER_SECONDS = 900.0


@dataclass(frozen=True)
class Verdict:
    """How an attempt ended."""

    outcome: Literal["delivered", "retry", "failed"]
    error: str = ""
    platform_message_id: str = ""
    retry_after_seconds: float | None = None


def judge_status(status: int, retry_after: str | None, now: datetime) -> Verdict:
    """2xx is delivered; 408, 425, 429 and 5xx come again; everything else, redirects too, is for good."""
    if 200 <= status < 300:
        return Verdict("delivered")
    error = f"the receiver answered {status}"
    if status in (408, 425, 429) or status >= 500:
        return Verdict("retry", error, retry_after_seconds=parse_retry_after(retry_after, now))
    return Verdict("failed", error)


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Read a Retry-After header: seconds or a date; None when there is none that can be read."""
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit() and len(value) < 8:
        return min(float(value), _MAX_RETRY_AFTER_SECONDS)
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return min(max(0.0, (when - now).total_seconds()), _MAX_RETRY_AFTER_SECONDS)


def pause_seconds(attempts: int, jitter: float) -> float:
    """Return the pause after so many attempts: 2 s doubled each time up to 5 min, times `jitter` (0.75 to 1.25)."""
    return float(min(_BASE_SECONDS * 2 ** min(attempts - 1, 16), _MAX_SECONDS)) * jitter
