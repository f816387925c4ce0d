"""What starting the agent costs before it connects: seconds and megabytes of imports, the largest first.

Run in an environment with what the agent's image has; modules that other parts of the project bring along into a
development environment are hidden here, because the libraries use them when they are there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from bench.report import emit, percentile

HIDDEN = (
    "aiohttp",
    "rich",
    "click",
    "pygments",
    "brotli",
    "zstandard",
    "h2",
    "better_exceptions",
    "uvloop",
    "certifi_win32",
)
FORBIDDEN = (
    "openai", "anthropic", "boto3", "aiohttp", "kubernetes", "psycopg", "prometheus_client", "pydantic_settings", "fastapi",
    "hermes_agent.testing", "opentelemetry",
)  # fmt: skip

_PROGRAM = """
import sys, time, json
hidden = set(json.loads(sys.argv[1]))
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in hidden:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hide())
before, cpu = time.perf_counter(), time.process_time()
import hermes_agent.__main__
seconds, cpu = time.perf_counter() - before, time.process_time() - cpu
rss = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))
print(json.dumps({"seconds": seconds, "cpu": cpu, "rss_kib": rss, "modules": sorted(sys.modules)}))
"""


def measure(*, importtime: bool = False) -> tuple[dict[str, object], str]:
    """Import the agent in a fresh interpreter; return what it found and what `-X importtime` said."""
    command = [sys.executable, *(["-X", "importtime"] if importtime else []), "-c", _PROGRAM, json.dumps(HIDDEN)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def largest(trace: str, count: int = 15) -> list[tuple[str, float]]:
    """Return the slowest imports by their own time, in milliseconds."""
    rows = []
    for line in trace.splitlines():
        parts = line.removeprefix("import time:").split("|")
        if len(parts) == 3 and parts[0].strip().isdigit():
            rows.append((parts[2].strip(), int(parts[0]) / 1000))
    return sorted(rows, key=lambda row: -row[1])[:count]


def main() -> None:
    measure()
    runs = [measure()[0] for _ in range(int(os.environ.get("RUNS", "7")))]
    cpu = [float(str(run["cpu"])) * 1000 for run in runs]
    emit(
        "agent_imports",
        [float(str(run["seconds"])) * 1000 for run in runs],
        cpu_p50_ms=round(percentile(cpu, 0.5), 1),
        cpu_min_ms=round(min(cpu), 1),
        rss_mib=round(float(str(runs[0]["rss_kib"])) / 1024, 1),
        modules=len(runs[0]["modules"]),  # type: ignore[arg-type]
        load=round(os.getloadavg()[0], 1),
    )


if __name__ == "__main__":
    main()
