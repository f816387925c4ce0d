"""How long `true` takes through sandboxd: one JSON line, in milliseconds.

Run: `python bench/exec_latency.py [samples]`. Beside it stands the same spawn without any daemon, for scale.
"""

import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "libs"), str(ROOT / "agent_image")]

from hermes_agent.sandbox import ExecRequest, Sandbox  # noqa: E402


def percentiles(values: list[float]) -> dict[str, float]:
    """p50, p95 and p99 of seconds, as milliseconds."""
    ordered = sorted(values)
    return {f"p{p}_ms": round(ordered[min(len(ordered) - 1, len(ordered) * p // 100)] * 1000, 3) for p in (50, 95, 99)}


def machine() -> dict[str, object]:
    return {
        "cpus": os.cpu_count(),
        "arch": platform.machine(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }


async def start(folder: str) -> tuple[asyncio.subprocess.Process, Sandbox, float]:
    """A sandboxd of its own, a client, and the seconds from start to greeting."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        "/usr/bin/python3", "-I", "-S", "-E", str(ROOT / "sandbox_image"),
        "--socket", f"{folder}/exec.sock", "--workspace", folder, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    sandbox = await Sandbox.connect(f"{folder}/exec.sock", timeout=30)
    return process, sandbox, time.perf_counter() - began


async def timed(sandbox: Sandbox, request: ExecRequest, samples: int) -> list[float]:
    times = []
    for _ in range(samples + 20):
        began = time.perf_counter()
        assert (await sandbox.run(request)).ok
        times.append(time.perf_counter() - began)
    return times[20:]


async def bare(samples: int) -> list[float]:
    times = []
    for _ in range(samples):
        began = time.perf_counter()
        os.waitpid(os.posix_spawnp("true", ["true"], os.environ), 0)
        times.append(time.perf_counter() - began)
    return times


async def main(samples: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        process, sandbox, listening = await start(folder)
        requests = {
            "argv": ExecRequest(argv=("true",)),
            "command": ExecRequest(command="true"),
            "shell_session": ExecRequest(command="true", shell="s"),
        }
        for name, request in requests.items():
            numbers = percentiles(await timed(sandbox, request, samples))
            print(json.dumps({"bench": f"exec_latency_{name}", **numbers, "samples": samples, "machine": machine()}))
        print(json.dumps({"bench": "spawn_without_daemon", **percentiles(await bare(samples)), "samples": samples}))
        print(json.dumps({"bench": "sandboxd_start_to_greeting", "p50_ms": round(listening * 1000, 1), "samples": 1}))
        await sandbox.close()
        process.terminate()
        await process.wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500))
