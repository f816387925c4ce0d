"""US dollars as people write them, and as processes count them: in billionths."""

from __future__ import annotations

from decimal import Decimal

NANO = 1_000_000_000


def nano_usd(text: str) -> int:
    """Return an amount like `12.50` in billionths of a US dollar. Raises decimal.InvalidOperation for anything else."""
    return int(Decimal(text) * NANO)


def usd(nano: int) -> str:
    """Return an amount in US dollars: two decimals at least, six at most, cut and never rounded up."""
    whole, part = divmod(nano, NANO)
    return f"{whole}.{f'{part // 1000:06d}'.rstrip('0').ljust(2, '0')}"
