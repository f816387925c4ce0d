"""How fast and in how much memory 100 MB of output come through sandboxd: one JSON line.

Run: `python bench/exec_stream.py [runs]`.
"""

import asyncio
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from exec_latency import machine, start

from hermes_agent.sandbox import ExecRequest, Output

SIZE = 100 * 1000 * 1000


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


async def main(runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        process, sandbox, _ = await start(folder)
        speeds, before = [], resident(process.pid)
        for _ in range(runs):
            began, size = time.perf_counter(), 0
            async with await sandbox.exec(ExecRequest(argv=("head", "-c", str(SIZE), "/dev/zero"))) as stream:
                async for item in stream:
                    size += len(item.data) if isinstance(item, Output) else 0
            assert size == SIZE
            speeds.append(SIZE / 1e6 / (time.perf_counter() - began))
        speeds.sort()
        after = resident(process.pid)
        print(json.dumps({
            "bench": "exec_stream_100MB", "mb_per_s_p50": round(speeds[runs // 2]), "mb_per_s_worst": round(speeds[0]),
            "samples": runs,
            "daemon_rss_mb": round(after / 1e6, 1), "daemon_rss_growth_mb": round((after - before) / 1e6, 1),
            "client_peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000), "machine": machine(),
        }))  # fmt: skip
        await sandbox.close()
        process.terminate()
        await process.wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 9))
