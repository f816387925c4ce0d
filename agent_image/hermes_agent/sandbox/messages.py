"""Requests and answers as typed values. Answers are checked: they come from the sandbox, which may be hostile."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hermes_agent.sandbox.errors import ProtocolError

Count = Annotated[int, Field(ge=0, lt=1 << 63)]
Text = Annotated[str, Field(max_length=4096)]
Killed = Literal["", "timeout", "memory", "processes", "disk"]


class Request(BaseModel):
    """A value we send."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Answer(BaseModel):
    """A value the sandbox sent; unknown fields are ignored, so that a newer sandboxd may add some."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class TerminalSize(Request):
    """Rows and columns of a pseudo-terminal."""

    rows: int = 24
    columns: int = 80


class ExecRequest(Request):
    """One command: either `command`, a text for the shell, or `argv`, a program with its arguments."""

    command: str | None = None
    argv: tuple[str, ...] | None = None
    cwd: str | None = None
    """Default: where the shell session is, or the workspace."""
    env: dict[str, str | None] = Field(default_factory=dict)
    """Added to the image's environment; None removes a variable."""
    shell: str | None = None
    """Name of a shell session: commands with the same name share a working directory."""
    timeout_seconds: float | None = None
    """After it SIGTERM to the group, two seconds later SIGKILL to the tree."""
    stdin: bool = False
    pty: TerminalSize | None = None

    def wire(self, *, background: bool = False, max_output_bytes: int = 0) -> dict[str, object]:
        """The request frame's object."""
        body: dict[str, object] = {"op": "exec", **self.model_dump(exclude_none=True, exclude={"timeout_seconds", "env"})}
        if self.env:
            body["env"] = self.env
        if self.timeout_seconds is not None:
            body["timeout_ms"] = max(1, int(self.timeout_seconds * 1000))
        if background:
            body["background"] = True
        if max_output_bytes:
            body["max_output_bytes"] = max_output_bytes
        return body


class Exit(Answer):
    """How a foreground command ended: `code` or `signal`, and `killed` when a guard or the timeout did it."""

    code: Annotated[int, Field(ge=0, le=255)] | None
    signal: Annotated[int, Field(ge=1, le=128)] | None
    killed: Killed
    cwd: Text
    duration_ms: Count
    dropped: tuple[Count, Count] = (0, 0)
    """Bytes left out of the middle of stdout and stderr."""


class FileInfo(Answer):
    """One file: `mtime_ns` since the epoch, `size` in bytes."""

    type: Literal["file", "directory", "link", "other"]
    size: Count
    mtime_ns: int
    mode: Count
    path: Text = ""


class Entry(FileInfo):
    """One name in a directory."""

    name: Annotated[str, Field(max_length=255)]


class TreeEntry(Answer):
    """One name of the whole tree, by its path from the workspace.

    `hard` shares the file of `target`; `unnamed` (not UTF-8) and `unreadable` are there and cannot be asked for.
    """

    path: Text
    type: Literal["file", "directory", "link", "other", "hard", "unnamed", "unreadable"]
    mode: Annotated[int, Field(ge=0, le=0o7777)] = 0
    mtime_ns: Annotated[int, Field(gt=-(1 << 63), lt=1 << 63)] = 0
    ctime_ns: Annotated[int, Field(gt=-(1 << 63), lt=1 << 63)] = 0
    size: Count = 0
    inode: Annotated[int, Field(ge=0, lt=1 << 64)] = 0
    target: Text = ""


class Settled(Answer):
    """So many names are as they were asked to be."""

    settled: Count


class Listing(Answer):
    """Entries in order of name; there are more when `total` says so."""

    entries: Annotated[tuple[Entry, ...], Field(max_length=2000)]
    total: Count


class Written(Answer):
    """A file that is on disk now."""

    size: Count
    created: bool


class ProcessInfo(Answer):
    """A background process; `output_bytes` counts all it ever printed."""

    id: Annotated[str, Field(max_length=32)]
    command: Annotated[str, Field(max_length=2000)]
    running: bool
    code: Annotated[int, Field(ge=0, le=255)] | None
    signal: Annotated[int, Field(ge=1, le=128)] | None
    killed: Killed
    cwd: Text
    duration_ms: Count
    output_bytes: Count


class LogRange(ProcessInfo):
    """Which part of a process's output a log is: absolute byte offsets."""

    start: Count
    end: Count


class ProcessList(Answer):
    """The background processes of this connection."""

    processes: Annotated[tuple[ProcessInfo, ...], Field(max_length=64)]


class Hit(Answer):
    """One found file, or one line of it: `match` is false for lines of context."""

    path: Text
    line: Count = 0
    text: Text = ""
    match: bool = True


class Status(Answer):
    """Used and allowed; a limit of 0 means none is known."""

    commands: Count
    memory_used: int
    memory_limit: Count
    process_limit: Count
    disk_used: Count
    disk_limit: Count


class Hello(Answer):
    """The sandbox's first frame."""

    version: int
    workspace: Text


class Failure(Answer):
    """An error frame."""

    code: Annotated[str, Field(max_length=64)]
    message: Annotated[str, Field(max_length=16_384)]


A = TypeVar("A", bound=Answer)


def parse(kind: type[A], payload: bytes) -> A:
    """Check an answer.

    Raises:
        ProtocolError: it is not what was asked for.
    """
    try:
        return kind.model_validate_json(payload)
    except ValidationError as error:
        raise ProtocolError(f"the sandbox's {kind.__name__} is malformed: {error.error_count()} errors") from error
