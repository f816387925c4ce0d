"""Memory of the operator with many sleeping sessions, and how long a restart takes to look at all of them.

    python bench/operator_scale.py [--sessions 1000]

Needs the local cluster and helm. Makes suspended sessions in a namespace of its own, prints one JSON line, cleans up.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import secrets
import signal
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "libs"), str(ROOT / "operator")]

from hermes_contracts.names import API_VERSION  # noqa: E402  (the path above makes it importable)
from hermes_operator.cluster.resources import NAMESPACES, SESSIONS  # noqa: E402
from hermes_service.logs import configure_logging  # noqa: E402
from tests.integration.operator.admin import LABELS, Admin, find_kubeconfig, until  # noqa: E402
from tests.integration.operator.harness import Installation, free_port, restricted_kubeconfig  # noqa: E402

_CALL = re.compile(r'^hermes_operator_api_calls_total\{resource="([^"]+)",status="[^"]+",verb="([^"]+)"\} (\S+)$', re.M)
_PASSES = re.compile(r'^hermes_operator_reconcile_seconds_count\{kind="session".*\} (\S+)$', re.M)


def metrics(port: int) -> str:
    """Read an operator's metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return str(answer.read().decode())


def writes(text: str) -> float:
    """Count writes to the API server, apart from the lease's."""
    return sum(float(n) for res, verb, n in _CALL.findall(text) if verb not in ("get", "list", "watch") and res != "leases")


def rss_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def make_sessions(admin: Admin, namespace: str, count: int) -> None:
    """Make suspended sessions, sixteen at once."""
    numbers = iter(range(count))

    async def work() -> None:
        for n in numbers:
            manifest = {
                "apiVersion": API_VERSION,
                "kind": "HermesSession",
                "metadata": {"name": f"session-{n}", "namespace": namespace},
                "spec": {
                    "profileRef": {"name": "default"},
                    "suspend": True,
                    "owner": f"owner-{n}",
                    "key": {"channel": "api", "account": "bench", "chat": f"chat-{n}"},
                },
            }
            await admin.create(SESSIONS, manifest)

    async with asyncio.TaskGroup() as group:
        for _ in range(16):
            group.create_task(work())


async def measure(installation: Installation, count: int) -> dict[str, Any]:
    """Start, fill, settle, restart."""
    port = free_port()
    await installation.up(HERMES_OPERATIONS_PORT=str(port))
    await asyncio.sleep(5)
    first = installation.processes[0]
    base = rss_mib(first.pid)
    await make_sessions(installation.admin, installation.namespace, count)

    def settled() -> bool:
        return bool(re.search(rf'^hermes_operator_sessions\{{state="Suspended"\}} {float(count)}$', metrics(port), re.M))

    await until(settled, "every session is settled", 600)
    await asyncio.sleep(10)
    filled, cpu = rss_mib(first.pid), cpu_seconds(first.pid)
    await asyncio.sleep(30)
    idle_cores = (cpu_seconds(first.pid) - cpu) / 30
    first.send_signal(signal.SIGTERM)
    stopping = time.monotonic()
    first.wait(timeout=60)
    stop_seconds = time.monotonic() - stopping

    port = free_port()
    began = time.monotonic()
    second = installation.operator("again", HERMES_OPERATIONS_PORT=str(port))
    await until(lambda: "observe.synced" in installation.log("again"), "the list is complete", 120)
    synced = time.monotonic() - began
    await until(lambda: sum(map(float, _PASSES.findall(metrics(port)))) >= count, "every session was looked at", 120)
    looked = time.monotonic() - began
    looked_cpu = cpu_seconds(second.pid)
    return {
        "bench": "operator_scale",
        "sessions": count,
        "base_rss_mib": round(base, 1),
        "rss_mib": round(filled, 1),
        "mib_per_1000": round((filled - base) / count * 1000, 1),
        "idle_cores": round(idle_cores, 4),
        "stop_seconds": round(stop_seconds, 2),
        "restart_to_synced_seconds": round(synced, 2),
        "restart_to_all_looked_at_seconds": round(looked, 2),
        "restart_cpu_seconds": round(looked_cpu, 2),
        "restart_writes": writes(metrics(port)),
        "restart_rss_mib": round(rss_mib(second.pid), 1),
        "machine": {"cpus": os.cpu_count(), "load": os.getloadavg()[0], "python": platform.python_version()},
    }


async def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1000)
    count = parser.parse_args().sessions
    configure_logging("bench", "warning")
    kubeconfig = find_kubeconfig()
    if isinstance(kubeconfig, str):
        sys.exit(kubeconfig)
    namespace = f"hermes-bench-{secrets.token_hex(4)}"
    with tempfile.TemporaryDirectory() as folder:
        async with Admin.connect(kubeconfig) as admin:
            await admin.install_definitions()
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": LABELS}}
            await admin.apply(NAMESPACES, body)
            config = await restricted_kubeconfig(admin, namespace, kubeconfig, Path(folder))
            installation = Installation(admin, namespace, "unused:1", config, Path(folder))
            try:
                print(json.dumps(await measure(installation, count)))
            finally:
                await installation.close()
                await admin.delete(NAMESPACES, "", namespace)


if __name__ == "__main__":
    asyncio.run(main())
