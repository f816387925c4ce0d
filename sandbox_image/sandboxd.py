"""sandboxd: runs an agent's commands and holds its files, spoken to over one Unix socket (docs/exec-protocol.md).

One file, standard library only, Python 3.8 or later, so that it can be dropped into anybody's image. One thread and
one epoll set do everything that cannot block; short-lived threads do what can (fsync, directory trees).

Modules that are slow to import (asyncio, subprocess, typing, tempfile) are avoided: the first command of a cold pod
waits for this import.
"""

from __future__ import annotations

import _thread
import errno
import fcntl
import heapq
import json
import os
import resource
import select
import signal
import socket
import stat
import struct
import sys
import time
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Deque, Dict, List, NoReturn, Optional, Tuple

    Json = Dict[str, Any]

VERSION = 1
HELLO, REQUEST, STDOUT, STDERR, STDIN, STDIN_END, CREDIT, CONTROL, RESULT, ERROR = range(10)
HEADER = struct.Struct(">IBI")  # payload length, frame type, stream
MAX_PAYLOAD = 256 * 1024
MAX_REQUEST = 4 * 1024 * 1024  # a request carries what the kernel takes as arguments, 2 MiB, escaped
OUTPUT_WINDOW = 1024 * 1024
INPUT_WINDOW = 256 * 1024
MAX_STREAMS = 256
MAX_CONNECTIONS = 8
MAX_COMMANDS = 128
MAX_BACKGROUND = 64
MAX_SHELLS = 256
MAX_LIMITED_OUTPUT = 4 * 1024 * 1024
MAX_COMMAND_CHARS = 120_000  # the kernel refuses one argument of 128 KiB
ROLLING_OUTPUT = 200_000
FINISHED_KEPT_SECONDS = 1800.0
CONGESTED = 1024 * 1024
MAX_UNSENT = 32 * 1024 * 1024
DRAIN_SECONDS = 0.3
GRACE_SECONDS = 2.0
RATIO = 0.9
TAG = "HERMES_COMMAND"


class Refused(Exception):
    """A request that is answered with an error frame: `code` is for programs, the text for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Violation(Exception):
    """The client broke the protocol: its connection is closed."""


ERRNO_CODES = {
    errno.ENOENT: "not_found",
    errno.EISDIR: "is_directory",
    errno.ENOTDIR: "not_directory",
    errno.ENOTEMPTY: "not_empty",
    errno.EEXIST: "exists",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied",
    errno.ENOSPC: "quota_exceeded",
    errno.EDQUOT: "quota_exceeded",
    errno.EFBIG: "quota_exceeded",
    errno.ENAMETOOLONG: "invalid",
    errno.ELOOP: "invalid",
    errno.E2BIG: "too_large",
    errno.EAGAIN: "busy",
    errno.ENOMEM: "busy",
}


def refusal(error: OSError) -> Refused:
    """Translate an operating-system error."""
    name = error.filename if isinstance(error.filename, str) else ""
    text = os.strerror(error.errno or 0)
    return Refused(ERRNO_CODES.get(error.errno or 0, "io"), "%s: %s" % (name, text) if name else text)


def quietly(call: Callable[..., Any], *args: Any) -> Any:
    """Call for the effect; a file, process or descriptor that is gone already is no error. None on failure."""
    try:
        return call(*args)
    except OSError:
        return None


def log(event: str, **fields: Any) -> None:
    """One JSON line on stderr; a log nobody reads must not stop the daemon."""
    fields["event"] = event
    quietly(os.write, 2, json.dumps(fields).encode() + b"\n")


def read_text(path: str) -> str:
    """A small file of /proc or /sys; empty when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def field(request: Json, name: str, kind: Any, default: Any = None) -> Any:
    """One checked field of a request; `default` when absent or null."""
    value = request.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise Refused("invalid", "%s: wrong type %s" % (name, type(value).__name__))
    return value


def number(request: Json, name: str, default: Any, least: int, most: int) -> Any:
    """One checked whole number of a request."""
    value = field(request, name, int, default)
    if value is not None and not least <= value <= most:
        raise Refused("invalid", "%s: %d is not between %d and %d" % (name, value, least, most))
    return value


def shown(name: str) -> str:
    """A file name as text that every JSON reader takes: bytes that are not UTF-8 become U+FFFD."""
    return os.fsencode(name).decode("utf-8", "replace")


class Ring:
    """The last `capacity` bytes of an output, addressed by absolute offset; `total` counts all there ever were."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.parts: Deque[bytes] = deque()
        self.size = 0
        self.total = 0

    def append(self, data: bytes) -> None:
        """Take data in, forgetting the oldest."""
        self.total += len(data)
        data = data[-self.capacity :] if self.capacity else b""
        self.size += len(data)
        if self.parts and len(self.parts[-1]) < 4096:  # a flood of single bytes costs no more than its bytes
            data = self.parts.pop() + data
        self.parts.append(data)
        while self.size > self.capacity:
            excess = self.size - self.capacity
            first = self.parts.popleft()
            if len(first) > excess:
                self.parts.appendleft(first[excess:])
            self.size -= min(len(first), excess)

    def read(self, offset: int, limit: int) -> Tuple[int, bytes]:
        """Bytes from the absolute `offset` (negative: from the end), and the offset they really start at."""
        start = self.total - self.size
        offset = self.total + offset if offset < 0 else offset
        offset = min(max(offset, start), self.total)
        return offset, b"".join(self.parts)[offset - start :][:limit]


# --- what the kernel says about memory and processes ---------------------------------------------------------------


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


# --- the loop ------------------------------------------------------------------------------------------------------


class Loop:
    """epoll, timers, and results of threads; everything else runs in its callbacks."""

    def __init__(self) -> None:
        self.epoll = select.epoll()
        self.handlers: Dict[int, Callable[[int], None]] = {}
        self.timers: List[Tuple[float, int, Callable[[], None]]] = []
        self.count = 0
        self.results: Deque[Callable[[], None]] = deque()
        self.waiting: Deque[Tuple[Callable[[], Any], Callable[[Any, Optional[BaseException]], None]]] = deque()
        self.threads = 0
        self.awake, self.waker = os.pipe()
        os.set_blocking(self.awake, False)
        os.set_blocking(self.waker, False)
        self.on_wake: Callable[[], None] = lambda: None
        self.watch(self.awake, select.EPOLLIN, self.woken)

    def watch(self, fd: int, mask: int, handler: Callable[[int], None]) -> None:
        """Call the handler whenever the descriptor is ready."""
        self.epoll.register(fd, mask)
        self.handlers[fd] = handler

    def forget(self, fd: int) -> None:
        """Stop watching a descriptor that is about to be closed."""
        if self.handlers.pop(fd, None):
            self.epoll.unregister(fd)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call once, later; the callee checks whether it still matters."""
        self.count += 1
        heapq.heappush(self.timers, (time.monotonic() + seconds, self.count, call))

    def in_thread(self, work: Callable[[], Any], then: Callable[[Any, Optional[BaseException]], None]) -> None:
        """Run blocking work beside the loop, at most eight at once; `then` gets its result or its exception."""
        if self.threads >= 8:
            self.waiting.append((work, then))
            return
        self.threads += 1

        def body() -> None:
            value, error = None, None
            try:
                value = work()
            except Exception as caught:  # noqa: BLE001 it is handed to whoever asked
                error = caught
            self.results.append(lambda: then(value, error))
            quietly(os.write, self.waker, b"\0")

        _thread.start_new_thread(body, ())

    def woken(self, _mask: int) -> None:
        """A thread finished or a child died."""
        quietly(os.read, self.awake, 4096)
        self.on_wake()
        while self.results:
            self.threads -= 1
            self.results.popleft()()
            if self.waiting:
                self.in_thread(*self.waiting.popleft())

    def run(self) -> NoReturn:
        """Serve for ever."""
        while True:
            pause = -1.0
            while self.timers:
                pause = self.timers[0][0] - time.monotonic()
                if pause > 0:
                    break
                heapq.heappop(self.timers)[2]()
                pause = -1.0
            for fd, mask in self.epoll.poll(pause):
                handler = self.handlers.get(fd)
                if handler:
                    handler(mask)


# --- commands ------------------------------------------------------------------------------------------------------


class Output:
    """One output of a command: the descriptor it is read from and, when its size is limited, what is kept of it."""

    def __init__(self, fd: int, channel: int, limit: int) -> None:
        self.fd = fd
        self.channel = channel
        self.head = limit * 2 // 5
        self.tail = Ring(limit - self.head)
        self.sent = 0


def spawn(argv: List[str], environment: Dict[str, str], cwd: str, fds: Dict[int, int], terminal: str = "") -> int:
    """Start a process as leader of its own session. posix_spawn costs a fraction of fork in a process of any size."""
    actions: List[Any] = []
    if terminal:  # opened by a session leader without a terminal, it becomes the controlling one
        actions.append((os.POSIX_SPAWN_OPEN, 0, terminal, os.O_RDWR, 0))
        actions += [(os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
    actions += [(os.POSIX_SPAWN_DUP2, source, target) for target, source in fds.items() if target >= 0]
    os.chdir(cwd)  # posix_spawn cannot; threads here use absolute paths only
    try:
        return os.posix_spawnp(
            argv[0],
            argv,
            environment,
            file_actions=actions,
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM),
        )
    finally:
        os.chdir("/")


class Command:
    """One command: a process tree, its pipes and how it ended. `owner` answers for foreground ones."""

    def __init__(self, daemon: Daemon, name: str, connection: Connection, stream: int, request: Json) -> None:
        self.daemon = daemon
        self.loop = daemon.loop
        self.name = name
        self.connection = connection
        self.stream = stream
        self.background = field(request, "background", bool, False)
        self.shell = field(request, "shell", str, "")
        self.limit = number(request, "max_output_bytes", 0, 0, MAX_LIMITED_OUTPUT)
        self.timeout = number(request, "timeout_ms", 0, 0, 1 << 40) / 1000.0
        self.title = ""
        self.started = time.monotonic()
        self.ended = 0.0
        self.window = OUTPUT_WINDOW
        self.outputs: Dict[int, Output] = {}
        self.rolling = Ring(ROLLING_OUTPUT)
        self.input_fd = -1
        self.is_terminal = False
        self.input: Deque[bytes] = deque()
        self.input_size = 0
        self.input_ended = False
        self.paused = False
        self.cwd_fd = -1
        self.cwd = ""
        self.status: Optional[int] = None
        self.killed = ""
        self.dropped = [0, 0]
        self.activity = 0.0
        self.finished = False
        self.muted = False
        self.written = 0
        self.cpu = 0
        self.waiters: List[Callable[[], None]] = []
        self.pid = 0

    def start(self, argv: List[str], environment: Dict[str, str], cwd: str, request: Json) -> None:
        """Make the pipes and the process; nothing stays open when that fails."""
        self.cwd = cwd
        theirs: Dict[int, int] = {}
        terminal = ""
        try:
            if request.get("pty") is not None:
                terminal = self.open_terminal(field(request, "pty", dict), theirs)
            else:
                self.open_pipes(field(request, "stdin", bool, False), theirs)
            if self.shell:
                self.cwd_fd, theirs[9] = os.pipe()
            self.pid = spawn(argv, environment, cwd, theirs, terminal)
        except BaseException:
            for fd in [*self.outputs, self.input_fd, self.cwd_fd]:
                quietly(os.close, fd)
            raise
        finally:
            for fd in set(theirs.values()):
                os.close(fd)
        for fd in self.outputs:
            os.set_blocking(fd, False)
            self.watch_output(fd)
        for fd in (self.input_fd, self.cwd_fd):
            if fd >= 0:
                os.set_blocking(fd, False)
        if self.timeout:
            self.loop.after(self.timeout, self.timed_out)

    def open_terminal(self, size: Json, theirs: Dict[int, int]) -> str:
        """A pseudo-terminal; its name is opened by the process, so that it becomes the controlling one."""
        master, slave = os.openpty()
        self.outputs[master] = Output(master, STDOUT, self.limit)
        theirs[-1] = slave  # stays open until the process has opened it
        self.input_fd = os.dup(master)
        self.is_terminal = True
        resize(master, size)
        return str(os.ttyname(slave))

    def open_pipes(self, wants_input: bool, theirs: Dict[int, int]) -> None:
        """Three pipes; a background process has one for both outputs, which keeps their order."""
        if wants_input:
            theirs[0], self.input_fd = os.pipe()
        else:
            theirs[0] = os.open("/dev/null", os.O_RDONLY)
        for target, channel in ((1, STDOUT), (2, STDERR)):
            if target == 2 and self.background:
                theirs[2] = theirs[1]
                return
            reader, theirs[target] = os.pipe()
            self.outputs[reader] = Output(reader, channel, self.limit)
            if target == 1:
                quietly(fcntl.fcntl, reader, 1031, OUTPUT_WINDOW)  # F_SETPIPE_SZ

    def readable(self, fd: int) -> None:
        """Take what the command printed, as far as the client has room for it."""
        output = self.outputs[fd]
        room = MAX_PAYLOAD
        if not self.background and not self.limit:
            room = min(MAX_PAYLOAD, self.window)
            if room <= 0 or self.connection.unsent > CONGESTED:
                self.pause(True)
                return
        try:
            data = os.read(fd, room)
        except BlockingIOError:
            return
        except OSError:  # a terminal nobody has open says EIO; closing it now would send SIGHUP to a program about to exit
            if self.status is None:
                self.loop.forget(fd)
                self.loop.after(0.05, lambda: self.watch_output(fd))
                return
            data = b""
        if not data:
            self.close_output(fd)
            self.settle()
            return
        self.activity = time.monotonic()
        if self.background:
            self.rolling.append(data)
            return
        if self.limit:
            head, data = data[: output.head - output.sent], data[max(0, output.head - output.sent) :]
            if data:
                output.tail.append(data)
            data = head
        if data:
            output.sent += len(data)
            self.window -= len(data)
            self.connection.send(output.channel, self.stream, data)

    def watch_output(self, fd: int) -> None:
        """Read this output when there is something."""
        if fd in self.outputs and not self.paused and fd not in self.loop.handlers:
            self.loop.watch(fd, select.EPOLLIN, lambda _mask: self.readable(fd))

    def pause(self, paused: bool) -> None:
        """Stop or go on reading outputs; the pipe then holds the command back."""
        if paused != self.paused:
            self.paused = paused
            for fd in self.outputs:
                if paused:
                    self.loop.forget(fd)
                else:
                    self.watch_output(fd)
            if paused:
                self.connection.blocked.add(self)

    def credit(self, count: int) -> None:
        """The client consumed that much."""
        self.window += count
        if self.window > OUTPUT_WINDOW:
            raise Violation("more credit than output")
        self.pause(False)

    def feed(self, data: bytes) -> None:
        """Queue input for the command; what it no longer reads is dropped."""
        if self.input_fd < 0 or self.input_ended:
            return
        self.input.append(data)
        self.input_size += len(data)
        if self.input_size > INPUT_WINDOW:
            raise Violation("more input than credit")
        self.writable()

    def end_input(self) -> None:
        """End of input: a closed pipe, or the end-of-file character on a terminal."""
        if self.is_terminal and not self.input_ended:
            self.input.append(b"\x04")
            self.input_size += 1
        self.input_ended = True
        self.writable()

    def writable(self) -> None:
        """Write what the pipe takes, and give the client room for as much again."""
        self.loop.forget(self.input_fd)
        while self.input and self.input_fd >= 0:
            data = self.input.popleft()
            try:
                written = os.write(self.input_fd, data)
            except BlockingIOError:
                written = 0
            except OSError:
                written = len(data)
            self.input_size -= written
            is_end = self.is_terminal and self.input_ended and not self.input  # that byte is ours, not the client's
            if written and not self.background and not is_end:
                self.connection.send(CREDIT, self.stream, struct.pack(">I", written))
            if written < len(data):
                self.input.appendleft(data[written:])
                self.loop.watch(self.input_fd, select.EPOLLOUT, lambda _mask: self.writable())
                return
        if self.input_ended and self.input_fd >= 0:
            os.close(self.input_fd)
            self.input_fd = -1

    def signal(self, number: int) -> None:
        """Signal the command's whole process group; SIGKILL takes what left the group too."""
        if number == signal.SIGKILL:
            self.daemon.doom(self)
        elif self.status is None:
            quietly(os.killpg, self.pid, number)

    def stop(self, reason: str = "", grace: float = GRACE_SECONDS) -> None:
        """SIGTERM to the group now, SIGKILL to the tree after the grace."""
        if reason and not self.killed and self.status is None:
            self.killed = reason
        self.signal(signal.SIGTERM)
        quietly(os.killpg, self.pid, signal.SIGCONT)
        self.loop.after(grace, lambda: None if self.finished and not self.background else self.daemon.doom(self))

    def timed_out(self) -> None:
        """The time the client allowed is over."""
        if self.status is None:
            self.stop("timeout")

    def exited(self, status: int) -> None:
        """The leader has been reaped."""
        self.status = status
        self.activity = time.monotonic()
        if self.cwd_fd >= 0:
            text = quietly(os.read, self.cwd_fd, 65536) or b""
            os.close(self.cwd_fd)
            self.cwd_fd = -1
            if text.endswith(b"\n"):
                self.cwd = os.fsdecode(text[:-1])
                self.daemon.remember(self.shell, self.cwd)
        for fd in self.outputs:
            self.watch_output(fd)
        if not self.background:
            self.daemon.clean_up_after(self)
        self.loop.after(DRAIN_SECONDS, self.settle)
        self.settle()

    def settle(self) -> None:
        """Finish when the leader is gone, its outputs are at their end (or silent) and nothing of its tree is left."""
        if self.finished or self.status is None:
            return
        if self.outputs:
            quiet = time.monotonic() - self.activity
            if self.paused or quiet < DRAIN_SECONDS * 0.9:
                self.loop.after(DRAIN_SECONDS, self.settle)
                return
            if not self.background:
                for fd in list(self.outputs):
                    self.close_output(fd)
        if self.name in self.daemon.doomed:
            return  # the sweep calls again
        self.finished = True
        self.ended = time.monotonic()
        if self.input_fd >= 0:
            self.loop.forget(self.input_fd)
            os.close(self.input_fd)
            self.input_fd = -1
        self.input.clear()
        if not self.killed and os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) == signal.SIGKILL:
            self.killed = self.daemon.guard.kernel_reason()
        if not self.background and not self.muted:
            self.connection.finish(self.stream, RESULT, self.report())
        for waiter in self.waiters:
            waiter()
        self.waiters = []
        self.daemon.command_finished(self)

    def close_output(self, fd: int) -> None:
        """An output has ended: send what was kept of its end."""
        output = self.outputs[fd]
        self.loop.forget(fd)
        os.close(fd)
        data = output.tail.read(0, 1 << 40)[1]
        for start in range(0, len(data), MAX_PAYLOAD):
            self.connection.send(output.channel, self.stream, data[start : start + MAX_PAYLOAD])
        self.dropped[output.channel - STDOUT] = output.tail.total - len(data)
        del self.outputs[fd]

    def control(self, message: Json) -> None:
        """A signal or a new size of the terminal."""
        if message.get("op") == "signal":
            self.signal(number(message, "signal", signal.SIGTERM, 1, 64))
        elif message.get("op") == "resize" and self.is_terminal:
            for fd in self.outputs:
                resize(fd, message)

    def cancel(self) -> None:
        """Nobody wants the result of a foreground command any more."""
        self.abandon()

    def abandon(self) -> None:
        """Kill the tree now and tell nobody."""
        self.muted = True
        for fd in list(self.outputs):
            self.loop.forget(fd)
            os.close(fd)
        self.outputs.clear()
        self.daemon.doom(self)

    def report(self) -> Json:
        """How it stands: the result of a foreground command, one entry in the list of background ones."""
        status = self.status
        gone = status is not None
        report: Json = {
            "code": os.WEXITSTATUS(status) if gone and os.WIFEXITED(status) else None,  # type: ignore[arg-type]
            "signal": os.WTERMSIG(status) if gone and os.WIFSIGNALED(status) else None,  # type: ignore[arg-type]
            "killed": self.killed,
            "cwd": shown(self.cwd),
            "duration_ms": int(((self.ended or time.monotonic()) - self.started) * 1000),
        }
        if self.background:
            report.update(id=self.name, command=self.title, running=not self.finished, output_bytes=self.rolling.total)
        else:
            report["dropped"] = self.dropped
        return report


def resize(master: int, size: Json) -> None:
    """Set a terminal's size; TIOCSWINSZ."""
    rows, columns = number(size, "rows", 24, 1, 10000), number(size, "columns", 80, 1, 10000)
    fcntl.ioctl(master, 0x5414, struct.pack("HHHH", rows, columns, 0, 0))


# --- files ---------------------------------------------------------------------------------------------------------


class Paths:
    """Where the file operations may go. A net for a confused caller: commands run as the same user and need no such door."""

    def __init__(self, workspace: str, roots: List[str]) -> None:
        self.workspace = os.path.realpath(workspace)
        self.roots = [self.workspace] + [os.path.realpath(root) for root in roots]

    def resolve(self, path: Any, last_link: bool = True) -> str:
        """The real absolute path, links followed; with `last_link` false the last part itself is not followed."""
        if not isinstance(path, str) or not path or "\0" in path or len(path) > 4096:
            raise Refused("invalid", "path: must be 1 to 4096 characters without NUL")
        path = os.path.normpath(os.path.join(self.workspace, path)) if not last_link else os.path.join(self.workspace, path)
        real: str = os.path.realpath(path)
        if not last_link:
            real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        if not any(root == "/" or real == root or real.startswith(root + "/") for root in self.roots):
            raise Refused("outside_workspace", "%s: outside of %s" % (path, ", ".join(self.roots)))
        return real

    def directory(self, path: str) -> str:
        """A directory a command may start in: any, since a command can go anywhere."""
        real = os.path.join(self.workspace, path)
        if not os.path.isdir(real):
            raise Refused("not_found", "cwd: %s is not a directory" % real)
        return real


KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}


def describe(info: os.stat_result) -> Json:
    """What a listing says about one file."""
    kind = KINDS.get(stat.S_IFMT(info.st_mode), "other")
    return {"type": kind, "size": info.st_size, "mtime_ns": info.st_mtime_ns, "mode": stat.S_IMODE(info.st_mode)}


def list_directory(path: str, offset: int, limit: int) -> Json:
    """Entries in order of name, as many as fit one frame; `total` says how many there are."""
    names = sorted(os.listdir(path))
    entries: List[Json] = []
    room = MAX_PAYLOAD - 1024
    for name in names[offset : offset + limit]:
        info = quietly(os.lstat, os.path.join(path, name))
        entry = (
            dict(describe(info), name=shown(name))
            if info
            else {"name": shown(name), "type": "other", "size": 0, "mtime_ns": 0, "mode": 0}
        )
        room -= len(json.dumps(entry)) + 2
        if room < 0:
            break
        entries.append(entry)
    return {"entries": entries, "total": len(names)}


def remove(path: str, recursive: bool) -> Json:
    """Remove a file, a link (not what it names) or a directory; never follows links on the way down."""
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        os.unlink(path)
    elif not recursive:
        os.rmdir(path)
    else:
        for folder, directories, files in os.walk(path, topdown=False):
            for name in files:
                os.unlink(os.path.join(folder, name))
            for name in directories:
                full = os.path.join(folder, name)
                (os.unlink if os.path.islink(full) else os.rmdir)(full)
        os.rmdir(path)
    return {}


def usage_of(root: str) -> int:
    """Bytes on disk below a directory; each file counts once however many names it has."""
    total, seen, folders = 0, set(), [root]
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            continue
        for entry in entries:
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if info.st_nlink > 1 and not stat.S_ISDIR(info.st_mode):
                if info.st_ino in seen:
                    continue
                seen.add(info.st_ino)
            total += info.st_blocks * 512
            if stat.S_ISDIR(info.st_mode):
                folders.append(entry.path)
    return total


class Stream:
    """What a client has open under one number."""

    def __init__(self, connection: Connection, stream: int) -> None:
        self.connection = connection
        self.stream = stream

    def credit(self, count: int) -> None:
        """The client consumed output."""

    def feed(self, data: bytes) -> None:  # noqa: ARG002 what others override
        """The client sent input."""
        raise Violation("input for a request that takes none")

    def end_input(self) -> None:
        """The client's input is complete."""

    def control(self, message: Json) -> None:
        """A signal or a new terminal size: for commands only."""

    def cancel(self) -> None:
        """The client wants no answer any more; nothing may be left behind."""


class FileReader(Stream):
    """Streams a range of a regular file."""

    def __init__(self, connection: Connection, stream: int, path: str, request: Json) -> None:
        super().__init__(connection, stream)
        self.window = OUTPUT_WINDOW
        self.offset = number(request, "offset", 0, 0, 1 << 62)
        self.left = number(request, "length", 1 << 62, 0, 1 << 62)
        self.fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        self.info = os.fstat(self.fd)
        if not stat.S_ISREG(self.info.st_mode):
            os.close(self.fd)
            directory = stat.S_ISDIR(self.info.st_mode)
            what = "is a directory" if directory else "not a regular file"
            raise Refused("is_directory" if directory else "not_a_file", "%s: %s" % (path, what))

    def credit(self, count: int) -> None:
        """Send on."""
        self.window += count
        if self.window > OUTPUT_WINDOW:
            raise Violation("more credit than output")
        self.pump()

    def pause(self, _paused: bool) -> None:
        """The connection has room again."""
        self.pump()

    def pump(self) -> None:
        """Send what the client has room for; the rest when it has."""
        while self.fd >= 0 and self.window > 0:
            if self.connection.unsent > CONGESTED:
                self.connection.blocked.add(self)
                return
            try:
                data = os.pread(self.fd, min(MAX_PAYLOAD, self.window, self.left), self.offset) if self.left else b""
            except OSError as error:
                self.cancel()
                self.connection.fail(self.stream, refusal(error))
                return
            if not data:
                self.cancel()
                self.connection.finish(self.stream, RESULT, describe(self.info))
                return
            self.offset += len(data)
            self.left -= len(data)
            self.window -= len(data)
            self.connection.send(STDOUT, self.stream, data)

    def cancel(self) -> None:
        """Close the file."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class FileWriter(Stream):
    """Receives a file beside its final place and moves it there when it is whole and on disk."""

    def __init__(self, connection: Connection, stream: int, path: str, request: Json) -> None:
        super().__init__(connection, stream)
        self.guard = connection.daemon.guard
        self.path = path
        self.written = 0
        mode = number(request, "mode", None, 0, 0o7777)
        info = quietly(os.stat, path)
        if info and stat.S_ISDIR(info.st_mode):
            raise Refused("is_directory", "%s: is a directory" % path)
        if info and not stat.S_ISREG(info.st_mode):
            raise Refused("not_a_file", "%s: not a regular file" % path)
        if info and not os.access(path, os.W_OK):
            raise Refused("permission_denied", "%s: not writable" % path)
        folder, name = os.path.split(path)
        if field(request, "make_parents", bool, True):
            os.makedirs(folder, exist_ok=True)
        if len(os.fsencode(name)) > 255:
            raise Refused("invalid", "path: the name is longer than 255 bytes")
        self.temporary = os.path.join(folder, ".hermes-%s" % os.urandom(8).hex())
        self.nameless = True
        try:  # a file without a name leaves nothing behind when this process is killed
            self.fd = os.open(folder, os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
                raise
            self.nameless = False
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self.fd = os.open(self.temporary, flags, 0o600)
        os.fchmod(self.fd, mode if mode is not None else stat.S_IMODE(info.st_mode) if info else 0o644)
        self.created = info is None

    def feed(self, data: bytes) -> None:
        """Write one piece; the quota is checked before."""
        if self.fd < 0:
            return
        try:
            if not self.guard.has_room(self.path, len(data)):
                raise Refused("quota_exceeded", "%s: the workspace is full (%s)" % (self.path, self.guard.describe_disk()))
            view = memoryview(data)
            while view:
                view = view[os.write(self.fd, view) :]
        except (OSError, Refused) as error:
            self.cancel()
            self.connection.fail(self.stream, refusal(error) if isinstance(error, OSError) else error)
            return
        self.written += len(data)
        self.guard.pending += len(data)
        self.connection.send(CREDIT, self.stream, struct.pack(">I", len(data)))

    def end_input(self) -> None:
        """Sync and rename, in a thread: a disk may take its time."""
        if self.fd < 0:
            return
        fd, self.fd = self.fd, -1

        def commit() -> None:
            folder = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
                if self.nameless:  # Python asks for AT_SYMLINK_FOLLOW only when a directory is given
                    os.link("/proc/self/fd/%d" % fd, self.temporary, src_dir_fd=folder, follow_symlinks=True)
                os.rename(self.temporary, self.path)
                quietly(os.fsync, folder)
            except OSError:
                quietly(os.unlink, self.temporary)
                raise
            finally:
                os.close(folder)
                os.close(fd)

        def done(_: Any, error: Optional[BaseException]) -> None:
            self.guard.wrote(self.path, self.written, error is None)
            self.connection.answer(self.stream, {"size": self.written, "created": self.created}, error)

        self.connection.daemon.loop.in_thread(commit, done)

    def cancel(self) -> None:
        """Forget the half-written file."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
            self.guard.pending -= self.written
            if not self.nameless:
                quietly(os.unlink, self.temporary)


# --- connections ---------------------------------------------------------------------------------------------------


class Connection:
    """One client: frames in, frames out, its streams and its background commands."""

    def __init__(self, daemon: Daemon, sock: socket.socket) -> None:
        self.daemon = daemon
        self.sock = sock
        self.fd = sock.fileno()
        self.buffer = bytearray()
        self.unsent_parts: Deque[memoryview] = deque()
        self.unsent = 0
        self.greeted = False
        self.open = True
        self.streams: Dict[int, Any] = {}
        self.commands: List[Command] = []
        self.blocked: set[Any] = set()
        self.daemon.loop.watch(self.fd, select.EPOLLIN, self.ready)

    def send(self, kind: int, stream: int, payload: bytes) -> None:
        """Send or queue one frame."""
        if not self.open:
            return
        header = HEADER.pack(len(payload), kind, stream)
        sent = 0
        if not self.unsent_parts:
            try:
                sent = self.sock.sendmsg((header, payload))
            except BlockingIOError:
                pass
            except OSError:
                self.close("gone")
                return
            if sent == len(header) + len(payload):
                return
            self.daemon.loop.epoll.modify(self.fd, select.EPOLLIN | select.EPOLLOUT)
        for part in (memoryview(header), memoryview(payload)):
            if sent < len(part):
                self.unsent_parts.append(part[sent:])
                self.unsent += len(part) - sent
            sent = max(0, sent - len(part))
        if self.unsent > MAX_UNSENT:
            self.close("client does not read")

    def ready(self, mask: int) -> None:
        """The socket can be read or written."""
        try:
            if mask & select.EPOLLOUT:
                self.flush()
            if self.open and mask & ~select.EPOLLOUT:
                data = self.sock.recv(MAX_PAYLOAD)
                if not data:
                    self.close("closed")
                    return
                self.buffer += data
                self.parse()
        except BlockingIOError:
            return
        except OSError as error:
            self.close(str(error))
        except Violation as error:
            self.send(ERROR, 0, json.dumps({"code": "protocol", "message": str(error)}).encode())
            self.close("protocol: %s" % error)

    def flush(self) -> None:
        """Send what waits; wake the streams that waited for room."""
        while self.unsent_parts:
            part = self.unsent_parts[0]
            sent = self.sock.send(part)
            self.unsent -= sent
            if sent < len(part):
                self.unsent_parts[0] = part[sent:]
                break
            self.unsent_parts.popleft()
        if not self.unsent_parts:
            self.daemon.loop.epoll.modify(self.fd, select.EPOLLIN)
        if self.unsent <= CONGESTED // 2:
            blocked, self.blocked = self.blocked, set()
            for stream in blocked:
                stream.pause(False)

    def parse(self) -> None:
        """Handle every whole frame."""
        offset = 0
        while self.open and len(self.buffer) - offset >= HEADER.size:
            length, kind, stream = HEADER.unpack_from(self.buffer, offset)
            if length > (MAX_REQUEST if kind == REQUEST else MAX_PAYLOAD):
                raise Violation("frame of %d bytes" % length)
            end = offset + HEADER.size + length
            if len(self.buffer) < end:
                break
            payload = bytes(memoryview(self.buffer)[offset + HEADER.size : end])
            offset = end
            self.frame(kind, stream, payload)
        del self.buffer[:offset]

    def frame(self, kind: int, stream: int, payload: bytes) -> None:
        """One frame of the client."""
        if not self.greeted:
            self.greet(kind, payload)
        elif kind == REQUEST:
            self.request(stream, payload)
        elif kind not in (STDIN, STDIN_END, CREDIT, CONTROL):
            raise Violation("frame type %d" % kind)
        else:
            target = self.streams.get(stream)
            if target is None:
                return  # it ended while this was on its way
            if kind == STDIN:
                target.feed(payload)
            elif kind == STDIN_END:
                target.end_input()
            elif kind == CREDIT:
                if len(payload) != 4:
                    raise Violation("credit of %d bytes" % len(payload))
                target.credit(struct.unpack(">I", payload)[0])
            else:
                self.control(target, stream, message_of(payload))

    def greet(self, kind: int, payload: bytes) -> None:
        """Agree on a version."""
        versions = message_of(payload).get("versions") if kind == HELLO else None
        if not isinstance(versions, list) or VERSION not in versions:
            raise Violation("speak version %d first" % VERSION)
        self.greeted = True
        self.send(HELLO, 0, json.dumps({"version": VERSION, "workspace": self.daemon.paths.workspace}).encode())

    def control(self, target: Any, stream: int, message: Json) -> None:
        """Cancel any stream; signal or resize a command."""
        try:
            if message.get("op") == "cancel":
                self.streams.pop(stream, None)
                target.cancel()
            else:
                target.control(message)
        except Refused as error:
            raise Violation(str(error)) from error

    def request(self, stream: int, payload: bytes) -> None:
        """Open a stream."""
        if stream == 0 or stream in self.streams:
            raise Violation("stream %d is taken" % stream)
        request = message_of(payload)
        try:
            if len(self.streams) >= MAX_STREAMS:
                raise Refused("busy", "too many open requests")
            self.daemon.dispatch(self, stream, request)
        except Refused as error:
            self.fail(stream, error)
        except OSError as error:
            self.fail(stream, refusal(error))
        except ValueError as error:
            self.fail(stream, Refused("invalid", str(error)[:500]))
        except Exception as error:  # noqa: BLE001 a mistake of ours must not end other people's commands
            log("mistake", error=repr(error), op=str(request.get("op"))[:50])
            self.fail(stream, Refused("internal", repr(error)[:500]))

    def answer(self, stream: int, value: Any, error: Optional[BaseException]) -> None:
        """End a stream with what a thread came back with."""
        if error is None:
            self.finish(stream, RESULT, value)
        elif isinstance(error, OSError):
            self.fail(stream, refusal(error))
        elif isinstance(error, ValueError):
            self.fail(stream, Refused("invalid", str(error)[:500]))
        else:
            self.fail(stream, error if isinstance(error, Refused) else Refused("internal", repr(error)[:500]))

    def fail(self, stream: int, error: Refused) -> None:
        """End a stream with an error."""
        self.finish(stream, ERROR, {"code": error.code, "message": str(error)[:2000]})

    def finish(self, stream: int, kind: int, value: Json) -> None:
        """End a stream."""
        self.streams.pop(stream, None)
        self.send(kind, stream, json.dumps(value, separators=(",", ":")).encode())

    def close(self, why: str) -> None:
        """The client is gone: so is everything it started."""
        if not self.open:
            return
        self.open = False
        self.daemon.loop.forget(self.fd)
        self.sock.close()
        self.daemon.connections.discard(self)
        for target in list(self.streams.values()):
            target.cancel()
        self.streams = {}
        for command in list(self.commands):
            command.abandon()
        log("client_gone", why=why)


def message_of(payload: bytes) -> Json:
    """A JSON object out of a frame."""
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise Violation("not JSON: %s" % error) from error
    if not isinstance(value, dict):
        raise Violation("not a JSON object")
    return value


# --- guards --------------------------------------------------------------------------------------------------------


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
            groups, table = self.daemon.groups()
            self.scanned_count, self.scan_at = count, now + 0.5
            if not self.daemon.doomed:
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
                self.daemon.kill_for(victim, "memory", used=used, limit=limit)
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
            self.daemon.kill_for(max(groups, key=lambda name: len(groups[name])), "processes", used=count, limit=min(limits))
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
        groups, table = self.daemon.groups()
        scores: Dict[str, Tuple[int, int]] = {}
        for name, pids in groups.items():
            command = self.daemon.named[name]
            written, cpu = sum(written_by(pid) for pid in pids), sum(table[pid].cpu for pid in pids)
            wrote = written - command.written
            scores[name] = (wrote if wrote > 65536 else 0, cpu - command.cpu if grown > 65536 else 0)
            command.written, command.cpu = written, cpu
        settled, self.settled = self.settled, True
        if used > self.max_bytes and scores and settled and not self.daemon.doomed:
            victim = max(scores, key=lambda name: scores[name])
            if scores[victim] > (0, 0):
                self.settled = False  # the next measurement shows what this one wrote until it died
                self.daemon.kill_for(victim, "disk", used=used, limit=self.max_bytes)

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


# --- the daemon ----------------------------------------------------------------------------------------------------


class Daemon:
    """Listens, dispatches requests, and knows which process belongs to which command."""

    def __init__(self, options: Json) -> None:
        self.options = options
        self.loop = Loop()
        self.paths = Paths(options["workspace"], options["allow_root"])
        self.connections: set[Connection] = set()
        self.leaders: Dict[int, Command] = {}
        self.named: Dict[str, Command] = {}
        self.background: Dict[str, Command] = {}
        self.doomed: Dict[str, Command] = {}
        self.known: Dict[Tuple[int, str], str] = {}
        self.shells: Dict[str, str] = {}
        self.count = 0
        self.sweeping = self.sweep_due = self.ticking = self.stopping = False
        self.boot = os.urandom(6).hex()
        self.shell_path = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("HERMES_")}
        self.environment.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
        self.environment.update(HOME=self.paths.workspace, TMPDIR=self.environment.get("TMPDIR", "/tmp"))
        self.listener = self.listen(options["socket"])
        self.guard = Guard(self, options)
        self.loop.on_wake = self.reap

    def listen(self, path: str) -> socket.socket:
        """Take the socket over from a daemon that died; a living one is an error."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            probe.connect(path)
            raise SystemExit("socket: %s is served by another process" % path)
        except OSError:
            quietly(os.unlink, path)
        finally:
            probe.close()
        listener.bind(path)
        os.chmod(path, 0o660)
        listener.listen(16)
        listener.setblocking(False)
        self.loop.watch(listener.fileno(), select.EPOLLIN, self.accept)
        return listener

    def accept(self, _mask: int) -> None:
        """Let the agent in, and nobody else: a command could otherwise start another that outlives its limits."""
        accepted = quietly(self.listener.accept)
        if accepted is None:
            return
        sock = accepted[0]
        _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        wanted = self.options["peer_uid"]
        if (wanted is not None and uid != wanted) or len(self.connections) >= MAX_CONNECTIONS:
            log("refused", uid=uid, connections=len(self.connections))
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self.connections.add(Connection(self, sock))

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

    def stop(self) -> None:
        """SIGTERM: nothing is left running, and the socket is gone."""
        self.stopping = True
        quietly(os.unlink, self.options["socket"])
        for connection in list(self.connections):
            connection.close("stopping")
        self.loop.after(0.0, self.reap)

    def remember(self, shell: str, cwd: str) -> None:
        """Where a shell session is; the one not used for longest is forgotten."""
        self.shells.pop(shell, None)
        self.shells[shell] = cwd
        if len(self.shells) > MAX_SHELLS:
            del self.shells[next(iter(self.shells))]

    # Which process belongs to whom. A process is its command's as long as the chain of parents leads to the command's
    # leader. One whose chain broke has become our child: it is told by what was seen before, by its session, or by
    # the mark in its environment. One that hid all three belongs to nobody and is killed.

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
                self.command_finished(command)
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

    def tick(self) -> None:
        """Run the guards while there is anything to guard."""
        self.ticking = bool(self.named)
        if self.ticking:
            self.loop.after(self.guard.tick(), self.tick)

    def command_finished(self, command: Command) -> None:
        """Forget a foreground command; keep what a background one said for half an hour."""
        if not command.background or command.muted:
            self.named.pop(command.name, None)
            self.background.pop(command.name, None)
            if command in command.connection.commands:
                command.connection.commands.remove(command)
        else:
            self.loop.after(FINISHED_KEPT_SECONDS, command.abandon)

    # Requests.

    def dispatch(self, connection: Connection, stream: int, request: Json) -> None:
        """Start what a request asks for."""
        operation = request.get("op")
        if operation in ("exec", "search"):
            self.execute(connection, stream, request)
        elif operation == "read":
            reader = FileReader(connection, stream, self.paths.resolve(request.get("path")), request)
            connection.streams[stream] = reader
            reader.pump()
        elif operation == "write":
            writer = FileWriter(connection, stream, self.paths.resolve(request.get("path")), request)
            connection.streams[stream] = writer
        elif operation in ("stat", "list", "mkdir", "remove", "move"):
            work = self.file_work(operation, request)
            connection.streams[stream] = Stream(connection, stream)
            self.loop.in_thread(work, lambda value, error: connection.answer(stream, value, error))
        elif operation == "process":
            self.process(connection, stream, request)
        elif operation == "status":
            connection.finish(stream, RESULT, self.status())
        else:
            raise Refused("invalid", "op: %s is not known" % json.dumps(operation)[:100])

    def file_work(self, operation: str, request: Json) -> Callable[[], Json]:
        """The blocking part of a small file operation."""
        given = request.get("path")
        if operation == "stat":
            path = self.paths.resolve(given, field(request, "follow", bool, True))
            call = os.stat if field(request, "follow", bool, True) else os.lstat
            return lambda: dict(describe(call(path)), path=shown(path))
        if operation == "list":
            path = self.paths.resolve(given)
            offset, limit = number(request, "offset", 0, 0, 1 << 40), number(request, "limit", 1000, 1, 2000)
            return lambda: list_directory(path, offset, limit)
        if operation == "mkdir":
            path = self.paths.resolve(given)
            return lambda: os.makedirs(path, exist_ok=True) or {}  # type: ignore[func-returns-value]
        path = self.paths.resolve(given, last_link=False)
        if path in self.paths.roots:
            raise Refused("invalid", "path: %s itself cannot be removed or moved" % path)
        if operation == "remove":
            recursive = field(request, "recursive", bool, False)
            return lambda: remove(path, recursive)
        target = self.paths.resolve(request.get("to"))
        return lambda: os.rename(path, target) or {}  # type: ignore[func-returns-value]

    def status(self) -> Json:
        """What is used and allowed, for the agent to tell the model."""
        guard = self.guard
        memory = guard.cgroup.memory_used() if guard.cgroup.memory_limit else guard.last_used
        return {
            "commands": len(self.leaders),
            "memory_used": memory,
            "memory_limit": guard.memory_limit or guard.cgroup.memory_limit,
            "process_limit": guard.max_processes or guard.cgroup.pids_limit,
            "disk_used": guard.disk_used,
            "disk_limit": guard.max_bytes,
        }

    def execute(self, connection: Connection, stream: int, request: Json) -> None:
        """Start a command, in the foreground (its stream stays open) or in the background (answered with its id)."""
        if len(self.leaders) >= MAX_COMMANDS:
            raise Refused("busy", "%d commands are running; wait for one to end" % len(self.leaders))
        self.count += 1
        command = Command(self, "p%d" % self.count, connection, stream, request)
        if command.background:
            self.make_room()
        cwd = field(request, "cwd", str) or self.shells.get(command.shell) or self.paths.workspace
        if not request.get("cwd") and not os.path.isdir(cwd):
            cwd = self.paths.workspace  # a shell's directory may have been removed
        try:
            argv = self.argv_of(request, command)
            command.title = (request.get("command") or " ".join(argv))[:2000]
            command.start(argv, self.environment_of(request, command), self.paths.directory(cwd), request)
        except FileNotFoundError as error:
            raise Refused("not_found", "%s: command not found" % argv[0]) from error
        self.leaders[command.pid] = self.named[command.name] = command
        connection.commands.append(command)
        if command.background:
            self.background[command.name] = command
            connection.finish(stream, RESULT, command.report())
        else:
            connection.streams[stream] = command
        if not self.ticking:
            self.ticking = True
            self.loop.after(0.02, self.tick)

    def argv_of(self, request: Json, command: Command) -> List[str]:
        """The program and its arguments. A shell session reports its directory on descriptor 9 when it ends."""
        if request["op"] == "search":
            path = self.paths.resolve(request.get("path") or ".")
            return [sys.executable, "-I", "-S", os.path.abspath(__file__), "--search", json.dumps(dict(request, path=path))]
        text, argv = field(request, "command", str), field(request, "argv", list)
        if (text is None) == (argv is None):
            raise Refused("invalid", "give either command or argv")
        if argv is not None:
            if not argv or not all(isinstance(item, str) for item in argv) or command.shell:
                raise Refused("invalid", "argv: must be a list of one or more strings, without shell")
            return list(argv)
        if len(os.fsencode(text)) > MAX_COMMAND_CHARS:
            raise Refused("too_large", "command: longer than %d bytes; write it to a file first" % MAX_COMMAND_CHARS)
        prefix = "trap 'pwd -P >&9' EXIT\n" if command.shell else ""
        return [self.shell_path, "-c", prefix + text]

    def environment_of(self, request: Json, command: Command) -> Dict[str, str]:
        """The image's environment, the request's over it (null removes), and the mark."""
        environment = dict(self.environment)
        if request.get("pty"):
            environment["TERM"] = "xterm-256color"
        for name, value in field(request, "env", dict, {}).items():
            if not isinstance(value, (str, type(None))) or not name or "=" in name or "\0" in name + (value or ""):
                raise Refused("invalid", "env: %s is not a name with a text or null" % json.dumps(name)[:100])
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value
        environment[TAG] = "%s.%s" % (self.boot, command.name)
        return environment

    def make_room(self) -> None:
        """The registry holds 64: a finished one gives way, running ones do not."""
        if len(self.background) >= MAX_BACKGROUND:
            finished = [command for command in self.background.values() if command.finished]
            if not finished:
                raise Refused("busy", "%d background processes are running; kill one first" % MAX_BACKGROUND)
            finished[0].abandon()
            self.background.pop(finished[0].name, None)

    def process(self, connection: Connection, stream: int, request: Json) -> None:
        """list, poll, log, wait, kill, write and close for background commands of this connection."""
        action = request.get("action")
        if action == "list":
            mine = [command.report() for command in self.background.values() if command.connection is connection]
            for entry in mine:
                entry["command"] = entry["command"][:200]
            connection.finish(stream, RESULT, {"processes": mine})
            return
        command = self.background.get(field(request, "id", str, ""))
        if command is None or command.connection is not connection:
            raise Refused("not_found", "id: no such background process; list shows those there are")
        if action == "log":
            limit = number(request, "limit", 50_000, 0, ROLLING_OUTPUT)
            start, data = command.rolling.read(number(request, "offset", -limit, -(1 << 62), 1 << 62), limit)
            if data:
                connection.send(STDOUT, stream, data)
            connection.finish(stream, RESULT, dict(command.report(), start=start, end=start + len(data)))
        elif action in ("wait", "kill"):
            if action == "kill":
                sent = number(request, "signal", signal.SIGTERM, 1, 64)
                command.stop() if sent == signal.SIGTERM else command.signal(sent)
            waiter = Waiter(connection, stream, command)
            connection.streams[stream] = waiter
            self.loop.after(number(request, "timeout_ms", 5000, 0, 1 << 40) / 1000.0, waiter.done)
            if command.finished:
                waiter.done()
            else:
                command.waiters.append(waiter.done)
        elif action in ("poll", "write", "close"):
            if action == "write":
                self.write_to(command, field(request, "data", str, ""))
            elif action == "close":
                command.end_input()
            connection.finish(stream, RESULT, command.report())
        else:
            raise Refused("invalid", "action: must be list, poll, log, wait, kill, write or close")

    def write_to(self, command: Command, data: str) -> None:
        """Input for a background process: text whose code points below 256 are its bytes (latin-1)."""
        if command.finished or command.input_fd < 0:
            raise Refused("closed", "%s takes no input" % command.name)
        raw = data.encode("latin-1")
        if command.input_size + len(raw) > INPUT_WINDOW:
            raise Refused("busy", "%s does not read its input; %d bytes wait" % (command.name, command.input_size))
        command.feed(raw)


class Waiter(Stream):
    """Somebody waits for a background process to end."""

    def __init__(self, connection: Connection, stream: int, command: Command) -> None:
        super().__init__(connection, stream)
        self.command = command

    def done(self) -> None:
        """It ended, or the waiting did."""
        if self.connection.streams.get(self.stream) is self:
            self.connection.finish(self.stream, RESULT, self.command.report())


# --- search: runs as a command of its own, so that a bad pattern or an endless tree can be killed --------------------


def search(request: Json) -> int:
    """Print one JSON object a line for each hit: `{path, line, text, match}` or, for target `files`, `{path}`."""
    import shutil

    target, pattern, root = request.get("target", "content"), request["pattern"], request["path"]
    glob, context = request.get("glob") or "", number(request, "context", 0, 0, 20)
    program = shutil.which("rg")
    if program is None:
        return search_without_ripgrep(target, pattern, root, glob, context)
    argv = [program, "--color=never", "--no-messages", "--no-config", "--sort=path", "--hidden", "--glob=!.git/"]
    if target == "files":
        argv += ["--files", "--null", "--glob=" + pattern]
    else:
        argv += ["--null", "--line-number", "--no-heading", "--with-filename", "--max-columns=2000", "--max-columns-preview"]
        argv += ["--no-context-separator", "--context=%d" % context] + (["--glob=" + glob] if glob else [])
        argv += ["--regexp=" + pattern]
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    actions = [(os.POSIX_SPAWN_DUP2, writer, 1)]
    pid = os.posix_spawn(program, [*argv, "--", root], os.environ, file_actions=actions)
    os.close(writer)
    with os.fdopen(reader, "rb") as found:
        print_hits(found, target)
    status = os.waitpid(pid, 0)[1]
    return 2 if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 2 else 0


def print_hits(found: Any, target: str) -> None:
    """Translate ripgrep's `path NUL line:text`."""
    if target == "files":
        for raw in found.read().split(b"\0")[:-1]:
            emit({"path": raw.decode("utf-8", "replace")})
        return
    for raw in found:
        path, _, rest = raw.partition(b"\0")
        digits = len(rest) - len(rest.lstrip(b"0123456789"))
        if digits:
            text = rest[digits + 1 :].rstrip(b"\r\n").decode("utf-8", "replace")
            print_hit(path.decode("utf-8", "replace"), int(rest[:digits]), text, rest[digits : digits + 1] == b":")


def print_hit(path: str, line: int, text: str, match: bool) -> None:
    """One line of a file."""
    emit({"path": path, "line": line, "text": text[:2000], "match": match})


def emit(hit: Json) -> None:
    """Print one hit."""
    sys.stdout.write(json.dumps(hit) + "\n")


def search_without_ripgrep(target: str, pattern: str, root: str, glob: str, context: int) -> int:
    """The same in Python: slower, and it does not read .gitignore files."""
    import fnmatch
    import re

    try:
        expression = re.compile(pattern.encode("utf-8", "surrogateescape"))
    except re.error as error:
        if target == "content":
            sys.stderr.write("regex parse error: %s\n" % error)
            return 2
    wanted = pattern if target == "files" else glob
    tree = os.walk(root) if os.path.isdir(root) else [(os.path.dirname(root), [], [os.path.basename(root)])]
    for folder, directories, files in tree:
        directories[:] = sorted(name for name in directories if name != ".git")
        for name in sorted(files):
            path = os.path.join(folder, name)
            if wanted and not fnmatch.fnmatch(os.path.relpath(path, root) if "/" in wanted else name, wanted):
                continue
            if target == "files":
                emit({"path": shown(path)})
            elif os.path.isfile(path) and not os.path.islink(path):
                grep(path, expression, context)
    return 0


def grep(path: str, expression: Any, context: int) -> None:
    """Print the matching lines of one text file, and those around them."""
    try:
        with open(path, "rb") as file:
            lines = file.read(16 << 20).split(b"\n")
    except OSError:
        return
    if any(b"\0" in line for line in lines[:50]):
        return
    hits = {index for index, line in enumerate(lines) if expression.search(line)}
    printed = {near for index in hits for near in range(max(0, index - context), min(len(lines), index + context + 1))}
    for index in sorted(printed):
        print_hit(shown(path), index + 1, lines[index].decode("utf-8", "replace"), index in hits)


# --- start ---------------------------------------------------------------------------------------------------------


def protect() -> None:
    """Adopt orphans (PR_SET_CHILD_SUBREAPER) and refuse to be traced by our own user (PR_SET_DUMPABLE)."""
    try:
        import ctypes

        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (ImportError, OSError, AttributeError) as error:  # a small image; as process 1 orphans come to us anyway
        log("no_prctl", error=str(error))
        return
    if prctl(36, 1, 0, 0, 0) != 0:
        log("no_subreaper", errno=ctypes.get_errno())
    prctl(4, 0, 0, 0, 0)


def limit_self(options: Json) -> None:
    """Limits every command inherits: no core files, and no single file above the quota."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if options["max_workspace_bytes"]:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        most = options["max_workspace_bytes"]
        resource.setrlimit(resource.RLIMIT_FSIZE, (most if hard == resource.RLIM_INFINITY else min(hard, most), hard))
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open("/dev/null", os.O_RDWR)
    # The kernel's own choice, should it come to that, falls on commands: they inherit the worst score.
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


def parse(arguments: List[str]) -> Json:
    """Command line to options; argparse would double the time to start."""
    options: Json = {
        "socket": "/run/hermes/exec/exec.sock",
        "workspace": "/workspace",
        "allow_root": [],
        "peer_uid": None,
        "max_workspace_bytes": 0,
        "memory_limit_bytes": 0,
        "max_processes": 1024,
    }
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        key = name[2:].replace("-", "_")
        if not name.startswith("--") or key not in options:
            raise SystemExit("%s: unknown; known: %s" % (name, ", ".join("--" + key.replace("_", "-") for key in options)))
        text = value if equals else next(words, "")
        if key == "allow_root":
            options[key].append(text)
        elif isinstance(options[key], str):
            options[key] = text
        elif text.isdigit():
            options[key] = int(text)
        elif text != "auto":
            raise SystemExit("%s: %s is not a whole number" % (name, text))
    options["allow_root"] = options["allow_root"] or ["/tmp"]
    return options


def main(arguments: List[str]) -> int:
    """Run the daemon, or with `--search JSON` one search."""
    if arguments[:1] == ["--search"]:
        return search(json.loads(arguments[1]))
    options = parse(arguments)
    limit_self(options)
    daemon = Daemon(options)
    os.chdir("/")
    signal.set_wakeup_fd(daemon.loop.waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: daemon.loop.after(0.0, daemon.stop))
    signal.signal(signal.SIGINT, lambda *_: daemon.loop.after(0.0, daemon.stop))
    protect()
    log("listening", socket=options["socket"], workspace=daemon.paths.workspace)
    daemon.loop.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
