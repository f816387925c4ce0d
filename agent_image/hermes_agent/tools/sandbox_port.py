"""What tools need of a sandbox. The real one is adapted to this in `tools/sandbox_adapter.py`; tests have a fake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


class SandboxFailure(Exception):
    """The sandbox refused or could not; the text goes to the model."""


@dataclass(frozen=True)
class Captured:
    """One output of a command. When bytes were dropped, `gap` is where in `data` they are missing."""

    data: bytes = b""
    dropped_bytes: int = 0
    gap: int = 0


@dataclass(frozen=True)
class CommandResult:
    """How a command ended: `exit_code` or `signal`; `seconds` is its duration."""

    stdout: Captured
    stderr: Captured
    exit_code: int | None
    signal: int | None
    killed: str
    """Why the sandbox killed it: timeout, memory, processes, disk; empty when it ended by itself."""
    seconds: float


@dataclass(frozen=True)
class ProcessInfo:
    """A background process."""

    id: str
    command: str
    running: bool
    exit_code: int | None
    seconds: float
    killed: str = ""


@dataclass(frozen=True)
class ProcessOutput:
    """A piece of a background process' output. `next_offset` counts bytes from its start."""

    data: bytes
    next_offset: int
    lost_bytes: int
    """Bytes before `data` that are not kept any more."""
    info: ProcessInfo


@dataclass(frozen=True)
class FileInfo:
    """What a path is."""

    kind: Literal["file", "directory", "other"]
    size: int
    inside: bool = True
    """Whether it is in the workspace, links followed."""


@dataclass(frozen=True)
class SearchRequest:
    """A search below `path`."""

    pattern: str
    target: Literal["content", "files"]
    path: str
    file_glob: str
    limit: int
    offset: int
    context: int
    order: Literal["path", "modified"]
    output_mode: Literal["content", "files_only", "count"]


@dataclass(frozen=True)
class SearchResult:
    """Lines ready to read, `path:line:text` for content; `more` says whether the limit cut them."""

    lines: Sequence[str]
    more: bool


class SandboxPort(Protocol):
    """Every method raises SandboxFailure."""

    async def run(
        self, command: str, *, timeout_seconds: float, workdir: str | None, pty: bool, max_output_bytes: int
    ) -> CommandResult:
        """Run a command in the foreground."""
        ...

    async def start(self, command: str, *, workdir: str | None, pty: bool) -> ProcessInfo:
        """Start a command in the background."""
        ...

    async def processes(self) -> list[ProcessInfo]:
        """List background processes."""
        ...

    async def process_output(self, process_id: str, *, offset: int, limit: int) -> ProcessOutput:
        """Read output from an offset in bytes; a negative one counts from the end."""
        ...

    async def process_wait(self, process_id: str, timeout_seconds: float) -> ProcessInfo:
        """Wait until it ends or time is up."""
        ...

    async def process_kill(self, process_id: str) -> ProcessInfo:
        """End it and everything it started."""
        ...

    async def process_write(self, process_id: str, data: bytes) -> None:
        """Write to its standard input."""
        ...

    async def process_close(self, process_id: str) -> None:
        """Close its standard input."""
        ...

    async def stat(self, path: str) -> FileInfo | None:
        """Say what a path is; None when there is nothing."""
        ...

    async def list_directory(self, path: str, *, limit: int) -> tuple[list[str], int]:
        """Return the first `limit` names in a directory (directories end with a slash), and how many there are."""
        ...

    async def read_file(self, path: str, *, offset: int, limit: int) -> bytes:
        """Read at most `limit` bytes from an offset in bytes."""
        ...

    async def write_file(self, path: str, data: bytes) -> None:
        """Replace a file atomically; directories above it are made."""
        ...

    async def remove_file(self, path: str) -> None:
        """Remove a file."""
        ...

    async def search(self, request: SearchRequest) -> SearchResult:
        """Search names or contents."""
        ...
