"""What the kernel says about memory and processes."""

from __future__ import annotations

import os
import resource

from sandboxd.system import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict

TAG = "HERMES_COMMAND"


class Cgroup:
    """Limits and use of the container's own control group, v1 or v2; a limit of 0 means there is none."""

    def __init__(self, root: str = "/sys/fs/cgroup") -> None:
        two = os.path.exists(root + "/memory.current")
        base = root if two else root + "/memory"
        self.current = base + ("/memory.current" if two else "/memory.usage_in_bytes")
        self.stat = base + "/memory.stat"
        self.events = base + ("/memory.events" if two else "/memory.oom_control")
        self.prefix = "" if two else "total_"
        self.pids = root + "/pids.current" if two else root + "/pids/pids.current"
        limit = read_text(base + ("/memory.max" if two else "/memory.limit_in_bytes")).strip()
        self.memory_limit = int(limit) if limit.isdigit() and int(limit) < 1 << 60 else 0
        most = read_text(root + "/pids.max" if two else root + "/pids/pids.max").strip()
        self.pids_limit = int(most) if most.isdigit() else 0

    def memory_used(self) -> int:
        """Bytes that cannot be given back by dropping page cache (what the kernel would kill for)."""
        used = int(read_text(self.current) or 0)
        if used < self.memory_limit * 0.5:
            return used
        for line in read_text(self.stat).splitlines():
            name, _, value = line.partition(" ")
            if name in (self.prefix + "inactive_file", self.prefix + "active_file"):
                used -= int(value)
        return used

    def kernel_kills(self) -> int:
        """How often the kernel has killed for memory here."""
        for line in read_text(self.events).splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
        return 0


class Process:
    """One line of the process table."""

    __slots__ = ("cpu", "parent", "resident", "session", "started", "state")

    def __init__(self, text: str) -> None:
        fields = text.rpartition(")")[2].split()
        self.state = fields[0]
        self.parent = int(fields[1])
        self.session = int(fields[3])
        self.cpu = sum(int(ticks) for ticks in fields[11:15])  # its own and its dead children's
        self.started = fields[19]
        self.resident = int(fields[21]) * resource.getpagesize()


def process_table() -> Dict[int, Process]:
    """Every process this container can see."""
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            text = read_text("/proc/%s/stat" % name)
            if text:
                table[int(name)] = Process(text)
    return table


def tagged(pid: int) -> str:
    """The command a process says it belongs to: the mark in the environment it was started with."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            for item in file.read(1 << 20).split(b"\0"):
                if item.startswith(TAG.encode() + b"="):
                    return item.partition(b"=")[2].decode("ascii", "replace")
    except OSError:
        pass
    return ""
