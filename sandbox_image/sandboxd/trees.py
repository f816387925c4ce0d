"""Which process belongs to which command, and how a whole tree of them is killed."""

from __future__ import annotations

import os
import signal

from sandboxd.kernel import process_table, tagged
from sandboxd.protocol import FINISHED_KEPT_SECONDS
from sandboxd.system import log, quietly, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

    from sandboxd.command import Command
    from sandboxd.kernel import Process
    from sandboxd.loop import Loop


class Trees:
    """The processes of all commands.

    A process is its command's as long as the chain of parents leads to the command's leader. One whose chain broke has
    become our child: it is told by what was seen before, by its session, or by the mark in its environment. One that hid
    all three belongs to nobody and is killed.
    """

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.leaders: Dict[int, Command] = {}
        self.named: Dict[str, Command] = {}
        self.background: Dict[str, Command] = {}
        self.doomed: Dict[str, Command] = {}
        self.known: Dict[Tuple[int, str], str] = {}
        self.sweeping = self.sweep_due = self.stopping = False
        self.boot = os.urandom(6).hex()

    def add(self, command: Command) -> None:
        """A command has started."""
        self.leaders[command.pid] = self.named[command.name] = command
        if command.background:
            self.background[command.name] = command

    def reap(self) -> None:
        """Collect the dead, our own and those orphans the kernel gave us."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            command = self.leaders.pop(pid, None)
            if command:
                command.exited(status)
        if self.stopping and not self.leaders and not self.doomed:
            raise SystemExit(0)

    def groups(self) -> Tuple[Dict[str, List[int]], Dict[int, Process]]:
        """Living processes by command; the empty name holds those of nobody."""
        table = process_table()
        me = os.getpid()
        owners: Dict[int, Optional[str]] = {pid: command.name for pid, command in self.leaders.items()}
        sessions = {command.pid: name for name, command in self.named.items()}
        owners[me] = None
        for pid in table:
            chain = []
            while pid in table and pid not in owners:
                chain.append(pid)
                process = table[pid]
                if process.parent == me:
                    owner = self.known.get((pid, process.started)) or sessions.get(process.session) or ""
                    boot, _, name = ("" if owner else tagged(pid)).partition(".")
                    owner = owner or (name if boot == self.boot else "")
                    owners[pid] = owner if owner in self.named else ""
                else:
                    pid = process.parent
            owner_of_all = owners.get(pid)
            for link in chain:
                owners[link] = owner_of_all
        groups: Dict[str, List[int]] = {}
        self.known = {}
        for pid, process in table.items():
            name_of = owners.get(pid)
            if name_of is not None and process.state != "Z":
                groups.setdefault(name_of, []).append(pid)
                if name_of:
                    self.known[pid, process.started] = name_of
        nobody = groups.pop("", [])
        for pid in nobody:
            quietly(os.kill, pid, signal.SIGKILL)
        return groups, table

    def clean_up_after(self, command: Command) -> None:
        """A foreground command's leader has exited: kill what it left. Its orphans are our children now."""
        pid = os.getpid()
        children = read_text("/proc/%d/task/%d/children" % (pid, pid))
        known = children or os.path.exists("/proc/%d/task/%d/children" % (pid, pid))
        if not known or any(int(child) not in self.leaders for child in children.split()):
            self.doom(command)

    def doom(self, command: Command) -> None:
        """Kill a command's whole tree, and go on until nothing of it is seen any more."""
        self.doomed[command.name] = command
        self.sweep()

    def sweep(self) -> None:
        """One round: stop, so that nothing multiplies while we look, then kill."""
        if self.sweeping:
            return
        self.sweeping = True
        found: Dict[str, List[int]] = {}
        stopped: set[int] = set()
        for _ in range(5):
            groups, _table = self.groups()
            found = {name: groups[name] for name in self.doomed if name in groups}
            fresh = {pid for pids in found.values() for pid in pids} - stopped
            if not fresh or sum(map(len, found.values())) == 1:
                break
            for pid in fresh:
                quietly(os.kill, pid, signal.SIGSTOP)
            stopped |= fresh
        for pids in found.values():
            for pid in pids:
                quietly(os.kill, pid, signal.SIGKILL)
        clean = [command for name, command in self.doomed.items() if name not in found]
        for command in clean:
            del self.doomed[command.name]
        self.sweeping = False
        for command in clean:
            if command.finished:
                self.forget(command)
            command.settle()
        if self.doomed and not self.sweep_due:
            self.sweep_due = True
            self.loop.after(0.003, self.sweep_again)
        elif self.stopping:
            self.loop.after(0.0, self.reap)

    def sweep_again(self) -> None:
        """The next round."""
        self.sweep_due = False
        self.sweep()

    def kill_for(self, name: str, reason: str, **facts: Any) -> None:
        """A guard's verdict."""
        command = self.named[name]
        if not command.killed:
            command.killed = reason
        log("killed", command=name, reason=reason, **facts)
        self.doom(command)

    def forget(self, command: Command) -> None:
        """Forget a foreground command; keep what a background one said for half an hour."""
        if not command.background or command.muted:
            self.named.pop(command.name, None)
            self.background.pop(command.name, None)
            if command in command.connection.commands:
                command.connection.commands.remove(command)
        else:
            self.loop.after(FINISHED_KEPT_SECONDS, command.abandon)
