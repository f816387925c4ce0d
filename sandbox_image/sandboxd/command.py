"""One command: a process tree, its pipes and how it ended."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import time
from collections import deque

from sandboxd.process import Output, resize, spawn
from sandboxd.protocol import (
    CONGESTED,
    CREDIT,
    INPUT_WINDOW,
    MAX_LIMITED_OUTPUT,
    MAX_PAYLOAD,
    OUTPUT_WINDOW,
    RESULT,
    ROLLING_OUTPUT,
    STDERR,
    STDOUT,
    Violation,
    field,
    number,
    shown,
)
from sandboxd.ring import Ring
from sandboxd.system import quietly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Deque, Dict, List, Optional

    from sandboxd.connection import Connection
    from sandboxd.daemon import Daemon
    from sandboxd.protocol import Json

DRAIN_SECONDS = 0.3
GRACE_SECONDS = 2.0


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
            self.daemon.trees.doom(self)
        elif self.status is None:
            quietly(os.killpg, self.pid, number)

    def stop(self, reason: str = "", grace: float = GRACE_SECONDS) -> None:
        """SIGTERM to the group now, SIGKILL to the tree after the grace."""
        if reason and not self.killed and self.status is None:
            self.killed = reason
        self.signal(signal.SIGTERM)
        quietly(os.killpg, self.pid, signal.SIGCONT)
        self.loop.after(grace, lambda: None if self.finished and not self.background else self.daemon.trees.doom(self))

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
                self.daemon.requests.remember(self.shell, self.cwd)
        for fd in self.outputs:
            self.watch_output(fd)
        if not self.background:
            self.daemon.trees.clean_up_after(self)
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
        if self.name in self.daemon.trees.doomed:
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
        self.daemon.trees.forget(self)

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
        self.daemon.trees.doom(self)

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
