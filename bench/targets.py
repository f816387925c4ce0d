"""The numbers to reach, and what the newest lines in bench/results say of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Target:
    """A field of the line of `bench` that has all of `where`; `limit` is its most, or its least where `at_least`."""

    what: str
    bench: str
    name: str
    limit: float
    unit: str = "ms"
    where: Mapping[str, object] = field(default_factory=dict)
    at_least: bool = False
    best_known: str = ""

    def value(self, rows: Sequence[Mapping[str, Any]]) -> float | None:
        """Return what was measured; None when it was not."""
        for row in rows:
            if row["bench"] == self.bench and all(row.get(key) == wanted for key, wanted in self.where.items()):
                found = row.get(self.name)
                return float(found) if isinstance(found, int | float) else None
        return None

    def is_met(self, value: float) -> bool:
        """Tell whether a value reaches the target."""
        return value >= self.limit if self.at_least else value <= self.limit


_HERMES = "Hermes Agent 0.19"
TARGETS = (
    Target("cold: sent to taken up, p50", "cold_start", "p50_ms", 1500, best_known="4 to 8 s"),
    Target("cold, beside a bare pod of the same shape", "cold_start_ratio", "ratio", 1.4, unit="×"),
    Target("from the warm pool: sent to taken up, p50", "warm_start", "p50_ms", 100, best_known="92 ms (agent-sandbox)"),
    Target("from the warm pool: sent to taken up, p99", "warm_start", "p99_ms", 400, best_known="376 ms (agent-sandbox)"),
    Target("woken with its volume: sent to taken up, p50", "wake_taken_up", "p50_ms", 1500,
           where={"kind": "PersistentVolumeClaim"}),
    Target("woken from its archive (20 MiB): sent to taken up, p50", "wake_taken_up", "p50_ms", 1500,
           where={"kind": "Archive"}),
    Target("platform time of a hot turn, p50", "hot_turn", "p50_ms", 15, best_known="130 ms (centaur)"),
    Target("platform time of a hot turn, p99", "hot_turn", "p99_ms", 60),
    Target("tool round inside the agent, p50", "tool_round.round", "p50_ms", 10, best_known=f"50 to 95 ms ({_HERMES})"),
    Target("`exec true` through sandboxd, p50", "exec_latency_argv", "p50_ms", 2.5, best_known="46 to 200 ms"),
    Target("100 MB through stdout, median", "exec_stream_100MB", "mb_per_s_p50", 500, unit="MB/s", at_least=True),
    Target("webhook accepted and on disk, p99 at 200/s", "webhook_accept", "p99_ms", 15),
    Target("first token through the agent, p50", "first_token", "p50_ms", 5),
    Target("agent after a turn", "resident_memory", "mib", 70, unit="MiB", where={"process": "agent"},
           best_known=f"96 to 192 MiB ({_HERMES})"),
    Target("operator", "operator_scale", "base_rss_mib", 120, unit="MiB"),
    Target("operator, more for 1,000 sleeping sessions", "operator_scale", "mib_per_1000", 10, unit="MiB",
           best_known="6 MiB (OpenKruise, Go)"),
    Target("operator standing still", "operator_scale", "idle_cores", 0.02, unit="cores"),
    Target("operator restart with 1,000 sessions", "operator_scale", "restart_to_all_looked_at_seconds", 5, unit="s"),
    Target("writes of that restart", "operator_scale", "restart_writes", 0, unit=""),
    Target("prompt and tools of a first call", "prompt_size", "bytes", 46_000, unit="bytes",
           best_known=f"46 to 57 KB ({_HERMES})"),
)  # fmt: skip


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a Markdown table: each target and what was measured."""
    lines = ["| what | target | measured | reached | best known |", "|---|---|---|---|---|"]
    for target in TARGETS:
        value = target.value(rows)
        if value is None:
            continue
        sign = "≥" if target.at_least else "≤"
        reached = "yes" if target.is_met(value) else "**no**"
        cells = (
            target.what,
            f"{sign} {target.limit:g} {target.unit}",
            f"{value:g} {target.unit}",
            reached,
            target.best_known,
        )
        lines.append("| " + " | ".join(cell.strip() for cell in cells) + " |")
    return "\n".join(lines) + "\n"
