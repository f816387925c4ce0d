"""`make bench`: run every measurement, keep its lines in bench/results, write the table in the README."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from bench import targets

HERE = Path(__file__).parent
RESULTS = HERE / "results"
README = HERE.parent / "README.md"
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
_NOT_MEASUREMENTS = {"__init__", "__main__", "report", "taken_up", "targets"}


def scripts() -> list[str]:
    """Return the names of all measurements."""
    return sorted(path.stem for path in HERE.glob("*.py") if path.stem not in _NOT_MEASUREMENTS)


def _run(name: str) -> bool:
    started = time.monotonic()
    print(f"==> {name}", flush=True)
    done = subprocess.run([sys.executable, "-m", f"bench.{name}"], stdout=subprocess.PIPE, text=True, timeout=900)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"bench"')]
    print(done.stdout, end="")
    print(f"    {time.monotonic() - started:.0f} s", flush=True)
    if done.returncode == 0:
        (RESULTS / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return done.returncode == 0


def _rows() -> list[dict[str, object]]:
    return [json.loads(line) for path in sorted(RESULTS.glob("*.jsonl")) for line in path.read_text().splitlines()]


_SHOWN = {"bench", "p50_ms", "p95_ms", "p99_ms", "samples", "machine"}


def table(rows: list[dict[str, object]]) -> str:
    """Return a Markdown table of all lines."""
    head = "| measurement | p50 ms | p95 ms | p99 ms | samples | more |\n|---|---|---|---|---|---|\n"
    body = ""
    for row in rows:
        more = ", ".join(f"{key} {value}" for key, value in row.items() if key not in _SHOWN)
        cells = [str(row.get(key, "")) for key in ("p50_ms", "p95_ms", "p99_ms", "samples")]
        body += f"| {row['bench']} | {' | '.join(cells)} | {more} |\n"
    return head + body


def write_table() -> None:
    """Put the table between its marks in the README."""
    text = README.read_text()
    if BEGIN in text and END in text:
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        rows = _rows()
        lines = f"<details><summary>Every line</summary>\n\n{table(rows)}\n</details>\n"
        README.write_text(f"{before}{BEGIN}\n{targets.table(rows)}\n{lines}{END}{after}")


def main() -> None:
    """Run the measurements named on the command line, or all."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"one or more of: {', '.join(scripts())}")
    RESULTS.mkdir(exist_ok=True)
    failed = [name for name in (parser.parse_args().names or scripts()) if not _run(name)]
    write_table()
    if failed:
        sys.exit(f"bench: failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
