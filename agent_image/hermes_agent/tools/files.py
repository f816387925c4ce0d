"""`read_file` and `write_file`."""

from __future__ import annotations

import posixpath

from pydantic import Field

from hermes_agent.tools.base import Access, Arguments, Tool, ToolContext, ToolFailure
from hermes_agent.tools.sandbox_port import FileInfo, SandboxPort
from hermes_agent.tools.text import MAX_LINE_CHARACTERS

CHUNK_BYTES = 256 * 1024
MAX_SCAN_BYTES = 64 * 1024 * 1024
"""How far into a file a page may lie."""
MAX_READ_CHARACTERS = 100_000
DEFAULT_LINES = 500
MAX_LINES = 2_000
MAX_WRITE_BYTES = 2_000_000
_DEVICE_ROOTS = ("/dev/", "/proc/", "/sys/")


class ReadArguments(Arguments):
    """Arguments of `read_file`."""

    path: str = Field(min_length=1, max_length=4096, description="File, relative to the workspace or absolute")
    offset: int = Field(default=1, ge=1, description="First line to read, counted from 1")
    limit: int = Field(default=DEFAULT_LINES, ge=1, description=f"Lines to read, at most {MAX_LINES}")


class WriteArguments(Arguments):
    """Arguments of `write_file`."""

    path: str = Field(min_length=1, max_length=4096, description="File, relative to the workspace or absolute")
    content: str = Field(max_length=MAX_WRITE_BYTES, description="The whole new content")


def path_key(path: str) -> str:
    """Return a path in the one form by which accesses are compared."""
    return posixpath.normpath(path.removeprefix("/workspace/") if path != "/workspace" else ".")


async def require_file(sandbox: SandboxPort, path: str) -> FileInfo:
    """Return what a readable file is. Raises ToolFailure with a way out for everything else."""
    if posixpath.normpath(path).startswith(_DEVICE_ROOTS):
        raise ToolFailure(f"{path}: devices and kernel files are not read this way; use terminal")
    info = await sandbox.stat(path)
    if info is None:
        raise ToolFailure(f"{path}: no such file; search_files with target files finds it by name")
    if info.kind == "directory":
        raise ToolFailure(f"{path}: is a directory; list it with search_files (target files) or terminal")
    if info.kind != "file":
        raise ToolFailure(f"{path}: is not a regular file")
    return info


async def _read(arguments: ReadArguments, context: ToolContext) -> str:
    info = await require_file(context.sandbox, arguments.path)
    if info.size == 0:
        return "(the file is empty)"
    page = _Page(arguments.offset, min(arguments.limit, MAX_LINES))
    position = 0
    while position < info.size and not page.full and position < MAX_SCAN_BYTES:
        chunk = await context.sandbox.read_file(arguments.path, offset=position, limit=CHUNK_BYTES)
        if not chunk:
            break
        if position == 0 and b"\0" in chunk[:8192]:
            raise ToolFailure(
                f"{arguments.path}: is binary ({info.size} bytes); look at it with terminal (file, xxd, strings)"
            )
        page.feed(chunk)
        position += len(chunk)
    page.finish(at_end=position >= info.size)
    if not page.lines:
        if position >= MAX_SCAN_BYTES and not page.full:
            raise ToolFailure(
                f"line {arguments.offset} is more than {MAX_SCAN_BYTES} bytes into the file; use terminal (sed -n)"
            )
        raise ToolFailure(f"offset: the file has {page.number - 1} lines")
    body = "\n".join(page.lines)
    more = page.full or position < info.size
    return f"{body}\n[more: offset {page.next_line}]" if more else body


class _Page:
    """Collects numbered lines `first` to `first + count - 1` from chunks, at most MAX_READ_CHARACTERS of them."""

    def __init__(self, first: int, count: int) -> None:
        self._first = first
        self._last = first + count - 1
        self._rest = b""
        self._size = 0
        self.number = 1
        self.lines: list[str] = []
        self.full = False

    @property
    def next_line(self) -> int:
        return self._first + len(self.lines)

    def feed(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if self.number + len(lines) < self._first:
            self.number += len(lines)
        else:
            for line in lines:
                self._line(line)
                if self.full:
                    return
        if len(self._rest) > 16 * MAX_LINE_CHARACTERS:
            self._rest = self._rest[: 16 * MAX_LINE_CHARACTERS]

    def finish(self, *, at_end: bool) -> None:
        if at_end and self._rest and not self.full:
            self._line(self._rest)

    def _line(self, data: bytes) -> None:
        number, self.number = self.number, self.number + 1
        if number < self._first:
            return
        if number > self._last:
            self.full = True
            return
        text = data.removesuffix(b"\r").decode("utf-8", "replace")
        if len(text) > MAX_LINE_CHARACTERS:
            text = f"{text[:MAX_LINE_CHARACTERS]}… [long line]"
        shown = f"{number:>6}|{text}"
        if self._size + len(shown) > MAX_READ_CHARACTERS and self.lines:
            self.full = True
            return
        self._size += len(shown) + 1
        self.lines.append(shown)


def writing(*paths: str) -> str:
    """Return the shell command that writes to files, for the approval rules."""
    import shlex  # loaded with the first write: start-up does not pay

    return "\n".join(shlex.join(("tee", path)) for path in paths)


async def _write(arguments: WriteArguments, context: ToolContext) -> str:
    data = arguments.content.encode("utf-8", "replace")
    await context.sandbox.write_file(arguments.path, data)
    lines = arguments.content.count("\n") + (not arguments.content.endswith("\n") and bool(arguments.content))
    return f"Wrote {len(data)} bytes ({lines} lines) to {arguments.path}."


TOOLS = (
    Tool(
        name="read_file",
        toolset="file",
        description="Read a text file, with line numbers. Page through long files with offset and limit.",
        arguments=ReadArguments,
        run=_read,
        access=lambda a: Access(reads=frozenset({path_key(a.path)})),
        max_characters=MAX_READ_CHARACTERS + 10_000,
    ),
    Tool(
        name="write_file",
        toolset="file",
        description="Write a whole file, atomically; makes missing directories and replaces what was there.",
        arguments=WriteArguments,
        run=_write,
        access=lambda a: Access(writes=frozenset({path_key(a.path)})),
        command=lambda a: writing(a.path),
    ),
)
