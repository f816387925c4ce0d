"""A sandbox in memory: files in a dictionary, commands in a log."""

from __future__ import annotations

import asyncio
import fnmatch
import posixpath
import re
from collections.abc import Callable

from hermes_agent.tools.sandbox_port import (
    Captured,
    CommandResult,
    FileInfo,
    ProcessInfo,
    ProcessOutput,
    SandboxFailure,
    SearchRequest,
    SearchResult,
)


class FakeSandbox:
    """`tools.sandbox_port.SandboxPort`. Commands: `echo TEXT`, `fail`, `sleep SECONDS`, `flood BYTES`; all are logged."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.ran: list[str] = []
        self.finished: list[str] = []
        self.writes: list[str] = []
        self.refuse_writes: set[str] = set()
        self.hook: Callable[[str], None] = lambda _when: None
        self._processes: dict[str, ProcessInfo] = {}
        self._input: dict[str, bytes] = {}

    def _key(self, path: str) -> str:
        return posixpath.normpath(path.removeprefix("/workspace").lstrip("/") or ".")

    async def run(
        self, command: str, *, timeout_seconds: float, workdir: str | None, pty: bool, max_output_bytes: int
    ) -> CommandResult:
        """Run a command of the short list."""
        del workdir, pty, max_output_bytes
        self.hook("before")
        self.ran.append(command)
        word, _, rest = command.partition(" ")
        output, code, killed = b"", 0, ""
        match word:
            case "echo":
                output = rest.encode() + b"\n"
            case "fail":
                output, code = b"no luck\n", 1
            case "flood":
                output = (b"x" * 79 + b"\n") * (int(rest) // 80)
            case "sleep":
                seconds = float(rest)
                await asyncio.sleep(min(seconds, timeout_seconds))
                killed = "timeout" if seconds > timeout_seconds else ""
            case _:
                pass
        self.finished.append(command)
        self.hook("after")
        return CommandResult(Captured(output), Captured(), None if killed else code, None, killed, 0.01 * len(self.ran))

    async def start(self, command: str, *, workdir: str | None, pty: bool) -> ProcessInfo:
        """Start a process that runs until killed."""
        del workdir, pty
        process = ProcessInfo(f"p{len(self._processes) + 1}", command, True, None, 0.0)
        self._processes[process.id] = process
        self._input[process.id] = b""
        return process

    async def processes(self) -> list[ProcessInfo]:
        """List processes."""
        return list(self._processes.values())

    def _process(self, process_id: str) -> ProcessInfo:
        if process_id not in self._processes:
            raise SandboxFailure(f"{process_id}: no such process")
        return self._processes[process_id]

    async def process_output(self, process_id: str, *, offset: int, limit: int) -> ProcessOutput:
        """Return what was written to it: it echoes."""
        info, data = self._process(process_id), self._input[process_id]
        piece = data[offset : offset + limit] if offset >= 0 else data[offset:][:limit]
        return ProcessOutput(piece, len(data), 0, info)

    async def process_wait(self, process_id: str, timeout_seconds: float) -> ProcessInfo:
        """Return at once."""
        del timeout_seconds
        return self._process(process_id)

    async def process_kill(self, process_id: str) -> ProcessInfo:
        """End it."""
        info = self._process(process_id)
        self._processes[process_id] = ProcessInfo(info.id, info.command, False, None, 1.0, "killed")
        return self._processes[process_id]

    async def process_write(self, process_id: str, data: bytes) -> None:
        """Keep what it reads."""
        self._process(process_id)
        self._input[process_id] += data

    async def process_close(self, process_id: str) -> None:
        """Nothing more to read."""
        self._process(process_id)

    async def stat(self, path: str) -> FileInfo | None:
        """Say what a path is."""
        key = self._key(path)
        if key in self.files:
            return FileInfo("file", len(self.files[key]), not path.startswith("/") or path.startswith("/workspace/"))
        is_directory = key == "." or any(name.startswith(key + "/") for name in self.files)
        return FileInfo("directory", 0) if is_directory else None

    async def list_directory(self, path: str, *, limit: int) -> tuple[list[str], int]:
        """List the names in a directory."""
        key = self._key(path)
        top = "" if key == "." else f"{key}/"
        below = [name.removeprefix(top) for name in self.files if name.startswith(top)]
        if not below and top:
            raise SandboxFailure(f"{path}: no such directory")
        names = sorted({f"{name.split('/')[0]}/" if "/" in name else name for name in below})
        return names[:limit], len(names)

    async def read_file(self, path: str, *, offset: int, limit: int) -> bytes:
        """Read a range."""
        key = self._key(path)
        if key not in self.files:
            raise SandboxFailure(f"{path}: no such file")
        return self.files[key][offset : offset + limit]

    async def write_file(self, path: str, data: bytes) -> None:
        """Replace a file."""
        key = self._key(path)
        self.hook("before")
        if key in self.refuse_writes:
            raise SandboxFailure(f"{path}: the workspace is full")
        self.writes.append(key)
        self.files[key] = data
        self.hook("after")

    async def remove_file(self, path: str) -> None:
        """Remove a file."""
        self.files.pop(self._key(path), None)

    async def search(self, request: SearchRequest) -> SearchResult:
        """Search names or lines."""
        names = sorted(n for n in self.files if fnmatch.fnmatch(posixpath.basename(n), request.file_glob or "*"))
        if request.target == "files":
            lines = [name for name in names if fnmatch.fnmatch(posixpath.basename(name), request.pattern)]
        else:
            lines = [
                f"{name}:{number}:{line}"
                for name in names
                for number, line in enumerate(self.files[name].decode().splitlines(), 1)
                if re.search(request.pattern, line)
            ]
        page = lines[request.offset : request.offset + request.limit]
        return SearchResult(page, len(lines) > request.offset + len(page))
