"""What a request asks for: commands, files, background processes."""

from __future__ import annotations

import json
import os
import signal
import sys

from sandboxd.archive import checked_entries, put
from sandboxd.command import Command
from sandboxd.files import FileReader, FileWriter, Stream
from sandboxd.kernel import TAG
from sandboxd.paths import describe, list_directory, remove
from sandboxd.protocol import (
    INPUT_WINDOW,
    MAX_BACKGROUND,
    MAX_COMMAND_CHARS,
    MAX_COMMANDS,
    MAX_SHELLS,
    RESULT,
    ROLLING_OUTPUT,
    STDOUT,
    Refused,
    field,
    number,
    shown,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List

    from sandboxd.connection import Connection
    from sandboxd.daemon import Daemon
    from sandboxd.protocol import Json


class Requests:
    """Starts what clients ask for."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.loop = daemon.loop
        self.paths = daemon.paths
        self.trees = daemon.trees
        self.count = 0
        self.shells: Dict[str, str] = {}
        self.shell_path = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("HERMES_")}
        self.environment.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
        self.environment.update(HOME=self.paths.workspace, TMPDIR=self.environment.get("TMPDIR", "/tmp"))

    def dispatch(self, connection: Connection, stream: int, request: Json) -> None:
        """Start what a request asks for."""
        operation = request.get("op")
        if operation in ("exec", "search", "tree"):
            self.execute(connection, stream, request)
        elif operation == "read":
            reader = FileReader(connection, stream, self.paths.resolve(request.get("path")), request)
            connection.streams[stream] = reader
            reader.pump()
        elif operation == "write":
            writer = FileWriter(connection, stream, self.paths.resolve(request.get("path")), request)
            connection.streams[stream] = writer
        elif operation in ("stat", "list", "mkdir", "remove", "move", "settle"):
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
        if operation == "settle":
            entries = checked_entries(request)
            return lambda: put(self.paths, entries)
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
        guard = self.daemon.guard
        memory = guard.cgroup.memory_used() if guard.cgroup.memory_limit else guard.last_used
        return {
            "commands": len(self.trees.leaders),
            "memory_used": memory,
            "memory_limit": guard.memory_limit or guard.cgroup.memory_limit,
            "process_limit": guard.max_processes or guard.cgroup.pids_limit,
            "disk_used": guard.disk_used,
            "disk_limit": guard.max_bytes,
        }

    def execute(self, connection: Connection, stream: int, request: Json) -> None:
        """Start a command, in the foreground (its stream stays open) or in the background (answered with its id)."""
        if len(self.trees.leaders) >= MAX_COMMANDS:
            raise Refused("busy", "%d commands are running; wait for one to end" % len(self.trees.leaders))
        self.count += 1
        command = Command(self.daemon, "p%d" % self.count, connection, stream, request)
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
        self.trees.add(command)
        connection.commands.append(command)
        if command.background:
            connection.finish(stream, RESULT, command.report())
        else:
            connection.streams[stream] = command
        self.daemon.guard_soon()

    def argv_of(self, request: Json, command: Command) -> List[str]:
        """The program and its arguments. A shell session reports its directory on descriptor 9 when it ends."""
        if request["op"] == "search":
            path = self.paths.resolve(request.get("path") or ".")
            return [sys.executable, "-I", "-S", self.daemon.program, "--search", json.dumps(dict(request, path=path))]
        if request["op"] == "tree":
            return [sys.executable, "-I", "-S", self.daemon.program, "--tree", self.paths.workspace]
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
        environment[TAG] = "%s.%s" % (self.trees.boot, command.name)
        return environment

    def remember(self, shell: str, cwd: str) -> None:
        """Where a shell session is; the one not used for longest is forgotten."""
        self.shells.pop(shell, None)
        self.shells[shell] = cwd
        if len(self.shells) > MAX_SHELLS:
            del self.shells[next(iter(self.shells))]

    def make_room(self) -> None:
        """The registry holds 64: a finished one gives way, running ones do not."""
        if len(self.trees.background) >= MAX_BACKGROUND:
            finished = [command for command in self.trees.background.values() if command.finished]
            if not finished:
                raise Refused("busy", "%d background processes are running; kill one first" % MAX_BACKGROUND)
            finished[0].abandon()
            self.trees.background.pop(finished[0].name, None)

    def process(self, connection: Connection, stream: int, request: Json) -> None:
        """list, poll, log, wait, kill, write and close for background commands of this connection."""
        action = request.get("action")
        if action == "list":
            mine = [command.report() for command in self.trees.background.values() if command.connection is connection]
            for entry in mine:
                entry["command"] = entry["command"][:200]
            connection.finish(stream, RESULT, {"processes": mine})
            return
        command = self.trees.background.get(field(request, "id", str, ""))
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
