"""Watches memory, processes and disk while commands run."""

from __future__ import annotations

import os
import time

from sandboxd.kernel import Cgroup
from sandboxd.paths import usage_of
from sandboxd.system import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

    from sandboxd.daemon import Daemon
    from sandboxd.kernel import Process
    from sandboxd.protocol import Json

RATIO = 0.9


class Guard:
    """Watches memory, processes and disk while commands run; kills the largest before the kernel or kubelet kills all."""

    def __init__(self, daemon: Daemon, options: Json) -> None:
        self.daemon = daemon
        self.cgroup = Cgroup()
        self.memory_limit = options["memory_limit_bytes"]
        self.max_processes = options["max_processes"]
        self.max_bytes = options["max_workspace_bytes"]
        self.workspace = daemon.paths.workspace
        self.kernel_kills = self.cgroup.kernel_kills() if self.cgroup.memory_limit else 0
        self.scanned_count = 0
        self.scan_at = 0.0
        self.last_used = 0
        self.disk_used = 0
        self.pending = 0
        self.measure_again = False
        self.settled = True
        self.disk_free = 0
        self.measuring = False
        self.measure_at = 0.0
        self.own_filesystem = False
        if self.max_bytes:
            info = os.statvfs(self.workspace)
            self.own_filesystem = info.f_blocks * info.f_frsize <= 2 * self.max_bytes
            self.measure()

    def kernel_reason(self) -> str:
        """`memory` when the kernel killed something for memory since the last question."""
        if not self.cgroup.memory_limit:
            return ""
        before, self.kernel_kills = self.kernel_kills, self.cgroup.kernel_kills()
        return "memory" if self.kernel_kills > before else ""

    def tick(self) -> float:
        """Look once; seconds until the next look. The process table costs 20 µs a process, so it is not read every time."""
        now, count = time.monotonic(), len(os.listdir("/proc"))
        limit = self.cgroup.memory_limit
        tight = self.memory_limit or (limit and self.cgroup.memory_used() > limit // 2)
        pause = 0.05
        if tight or count > self.scanned_count + 8 or now >= self.scan_at:
            groups, table = self.daemon.trees.groups()
            self.scanned_count, self.scan_at = count, now + 0.5
            if not self.daemon.trees.doomed:
                pause = min(self.check_memory(groups, table), self.check_processes(groups))
        if self.max_bytes:
            self.check_disk()
        return pause

    def check_memory(self, groups: Dict[str, List[int]], table: Dict[int, Process]) -> float:
        """Kill the largest tree above the ratio, unless it is the file system in memory that is full and not growing."""
        limits = [limit for limit in (self.memory_limit, self.cgroup.memory_limit) if limit]
        if not limits or not groups:
            return 0.05
        resident = {name: sum(table[pid].resident for pid in pids) for name, pids in groups.items()}
        limit = min(limits)
        used = self.cgroup.memory_used() if self.cgroup.memory_limit == limit else sum(resident.values())
        grown, self.last_used = used - self.last_used, used
        if used > limit * RATIO:
            victim = max(resident, key=lambda name: resident[name])
            if resident[victim] > limit // 10 or grown > 1 << 20:
                self.daemon.trees.kill_for(victim, "memory", used=used, limit=limit)
        return 0.01 if used > limit // 2 else 0.05

    def check_processes(self, groups: Dict[str, List[int]]) -> float:
        """Kill the tree with the most processes near the limit."""
        limits = [limit for limit in (self.max_processes, self.cgroup.pids_limit) if limit]
        if not limits or not groups:
            return 0.05
        count = sum(len(pids) for pids in groups.values())
        if self.cgroup.pids_limit == min(limits):
            count = max(count, int(read_text(self.cgroup.pids) or 0))  # threads count there too
        if count > min(limits) * RATIO:
            self.daemon.trees.kill_for(
                max(groups, key=lambda name: len(groups[name])), "processes", used=count, limit=min(limits)
            )
        return 0.01 if count > min(limits) // 4 else 0.05

    def check_disk(self) -> None:
        """Measure when it is time or when the file system lost half of what was left; cheap when it is our own."""
        info = os.statvfs(self.workspace)
        if self.own_filesystem:
            self.measured((info.f_blocks - info.f_bfree) * info.f_frsize)
            return
        lost = self.disk_free - info.f_bfree * info.f_frsize
        if time.monotonic() >= self.measure_at or lost > max(1 << 20, (self.max_bytes - self.disk_used) // 2):
            self.measure()

    def measure(self) -> None:
        """Walk the workspace in a thread; the next walk waits at least twenty times as long as this one took."""
        self.measure_again = self.measuring
        if self.measuring:
            return
        self.measuring = True
        info = os.statvfs(self.workspace)
        self.disk_free = info.f_bfree * info.f_frsize
        began = time.monotonic()

        def done(used: Any, _error: Optional[BaseException]) -> None:
            self.measuring = False
            now = time.monotonic()
            self.measure_at = now + max(0.5, 20 * (now - began))
            self.measured(used or 0)
            if self.measure_again:
                self.measure()

        self.daemon.loop.in_thread(lambda: usage_of(self.workspace), done)

    def measured(self, used: int) -> None:
        """Above the quota, kill whoever wrote most since the last look.

        What short-lived children wrote cannot be read any more; their processor time can, and decides then.
        """
        grown, self.disk_used = used - self.disk_used, used
        groups, table = self.daemon.trees.groups()
        scores: Dict[str, Tuple[int, int]] = {}
        for name, pids in groups.items():
            command = self.daemon.trees.named[name]
            written, cpu = sum(written_by(pid) for pid in pids), sum(table[pid].cpu for pid in pids)
            wrote = written - command.written
            scores[name] = (wrote if wrote > 65536 else 0, cpu - command.cpu if grown > 65536 else 0)
            command.written, command.cpu = written, cpu
        settled, self.settled = self.settled, True
        if used > self.max_bytes and scores and settled and not self.daemon.trees.doomed:
            victim = max(scores, key=lambda name: scores[name])
            if scores[victim] > (0, 0):
                self.settled = False  # the next measurement shows what this one wrote until it died
                self.daemon.trees.kill_for(victim, "disk", used=used, limit=self.max_bytes)

    def has_room(self, path: str, extra: int) -> bool:
        """Whether a file operation may add that much."""
        inside = path.startswith(self.workspace + "/")
        return not self.max_bytes or not inside or self.disk_used + self.pending + extra <= self.max_bytes

    def wrote(self, path: str, count: int, succeeded: bool) -> None:
        """A file operation has ended: count its bytes until the next measurement."""
        self.pending -= count
        if self.max_bytes and path.startswith(self.workspace + "/"):
            self.disk_used += count if succeeded else 0
            if not self.own_filesystem:
                self.measure()

    def describe_disk(self) -> str:
        """Used and allowed."""
        return "%d of %d bytes used" % (self.disk_used, self.max_bytes)


def written_by(pid: int) -> int:
    """Bytes a process sent to storage; on a file system in memory, bytes it wrote at all."""
    numbers = dict(line.split(": ") for line in read_text("/proc/%d/io" % pid).splitlines() if ": " in line)
    return int(numbers.get("write_bytes", 0)) or int(numbers.get("wchar", 0))
