"""What every measurement prints: one JSON line with percentiles, the number of samples and the machine."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that `share` of all samples do not exceed (nearest rank)."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * len(ordered) * 1000) // 1000) - 1))]


def machine() -> str:
    """Describe the machine, without its name."""
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


def emit(bench: str, samples_ms: Sequence[float] = (), **fields: object) -> None:
    """Print one line. `samples_ms` are milliseconds."""
    line: dict[str, object] = {"bench": bench}
    if samples_ms:
        line |= {f"p{int(share * 100)}_ms": round(percentile(samples_ms, share), 2) for share in (0.5, 0.95, 0.99)}
        line["samples"] = len(samples_ms)
    print(json.dumps({**line, **fields, "machine": machine()}), flush=True)
