"""The sandbox's client in the shape that tools want, its errors as sentences for the model."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from hermes_agent import sandbox
from hermes_agent.sandbox import ExecRequest, Hit, Sandbox, SandboxError, SearchQuery, TerminalSize
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

SHELL = "main"
"""Shell session whose working directory the model moves."""
CONNECT_SECONDS = 30.0
"""A sandbox that is still starting with its pod is waited for."""
MAX_HITS = 2_000
MAX_ORDERED_FILES = 200


class Workspace(Protocol):
    """Whatever has to be there before files are, and has to know that they may have changed."""

    def using(self) -> AbstractAsyncContextManager[None]:
        """Surround a call. Raises SandboxError when it cannot be made now."""
        ...


class SandboxAdapter:
    """`SandboxPort` over a Unix socket. Connects with the first call; without `workspace` files are always there."""

    def __init__(self, path: str, workspace: Workspace | None = None) -> None:
        self._sandbox = Sandbox(path, connect_seconds=CONNECT_SECONDS)
        self._workspace = workspace
        self._directory: str | None = None

    async def close(self) -> None:
        """End the connection and with it everything that runs."""
        await self._sandbox.close()

    @contextlib.asynccontextmanager
    async def _called(self) -> AsyncIterator[None]:
        try:
            async with self._workspace.using() if self._workspace is not None else contextlib.nullcontext():
                yield
        except SandboxError as error:
            raise SandboxFailure(error.message) from error

    async def run(
        self, command: str, *, timeout_seconds: float, workdir: str | None, pty: bool, max_output_bytes: int
    ) -> CommandResult:
        """Run a command in the model's shell session."""
        request = ExecRequest(
            command=command,
            cwd=workdir,
            shell=SHELL,
            timeout_seconds=timeout_seconds,
            pty=TerminalSize() if pty else None,
        )
        async with self._called():
            result = await self._sandbox.run(request, max_output_bytes=max_output_bytes)
        end = result.exit
        self._directory = end.cwd or self._directory
        return CommandResult(
            stdout=Captured(result.stdout, end.dropped[0], result.stdout_gap),
            stderr=Captured(result.stderr, end.dropped[1], result.stderr_gap),
            exit_code=end.code,
            signal=end.signal,
            killed=end.killed,
            seconds=end.duration_ms / 1000,
        )

    async def start(self, command: str, *, workdir: str | None, pty: bool) -> ProcessInfo:
        """Start a command where the shell session is now."""
        terminal = TerminalSize() if pty else None
        request = ExecRequest(command=command, cwd=workdir or self._directory, stdin=not pty, pty=terminal)
        async with self._called():
            return _process(await self._sandbox.processes.start(request))

    async def processes(self) -> list[ProcessInfo]:
        """List background processes."""
        async with self._called():
            return [_process(info) for info in await self._sandbox.processes.list()]

    async def process_output(self, process_id: str, *, offset: int, limit: int) -> ProcessOutput:
        """Read output; a negative offset reads the last `limit` bytes."""
        async with self._called():
            log = await self._sandbox.processes.log(process_id, offset=None if offset < 0 else offset, limit=limit)
        lost = max(0, log.info.start - offset) if offset >= 0 else 0
        return ProcessOutput(log.data, log.info.end, lost, _process(log.info))

    async def process_wait(self, process_id: str, timeout_seconds: float) -> ProcessInfo:
        """Wait for the end."""
        async with self._called():
            return _process(await self._sandbox.processes.wait(process_id, timeout_seconds))

    async def process_kill(self, process_id: str) -> ProcessInfo:
        """End it and its tree."""
        async with self._called():
            return _process(await self._sandbox.processes.kill(process_id))

    async def process_write(self, process_id: str, data: bytes) -> None:
        """Write to its input."""
        async with self._called():
            await self._sandbox.processes.write(process_id, data)

    async def process_close(self, process_id: str) -> None:
        """Close its input."""
        async with self._called():
            await self._sandbox.processes.close(process_id)

    async def stat(self, path: str) -> FileInfo | None:
        """Say what a path is."""
        try:
            async with self._called():
                info = await self._sandbox.stat(path)
                workspace = await self._sandbox.workspace()
        except SandboxFailure as failure:
            if isinstance(failure.__cause__, sandbox.NotFound):
                return None
            raise
        kind = info.type if info.type in {"file", "directory"} else "other"
        inside = info.path.startswith(workspace.rstrip("/") + "/")
        return FileInfo("file" if kind == "file" else "directory" if kind == "directory" else "other", info.size, inside)

    async def list_directory(self, path: str, *, limit: int) -> tuple[list[str], int]:
        """Return names, directories with a slash, and how many there are."""
        async with self._called():
            listing = await self._sandbox.list_directory(path, limit=limit)
        return [f"{entry.name}/" if entry.type == "directory" else entry.name for entry in listing.entries], listing.total

    async def read_file(self, path: str, *, offset: int, limit: int) -> bytes:
        """Read a range."""
        async with self._called():
            return await self._sandbox.read_file(path, offset=offset, length=limit)

    async def write_file(self, path: str, data: bytes) -> None:
        """Replace a file."""
        async with self._called():
            await self._sandbox.write_file(path, data)

    async def remove_file(self, path: str) -> None:
        """Remove a file."""
        async with self._called():
            await self._sandbox.remove(path)

    async def search(self, request: SearchRequest) -> SearchResult:
        """Search; what the sandbox does not do (newest first, counts) is done here over at most MAX_HITS hits."""
        whole = request.output_mode != "content" or request.order == "modified"
        query = SearchQuery(
            pattern=request.pattern,
            target=request.target,
            path=request.path,
            glob=request.file_glob or None,
            context=request.context if request.output_mode == "content" else 0,
            offset=0 if whole else request.offset,
            limit=MAX_HITS if whole else request.limit,
        )
        async with self._called():
            root = await self._sandbox.workspace() + "/"
            result = await self._sandbox.search(query)
        if not whole:
            return SearchResult([_line(hit, request).removeprefix(root) for hit in result.hits], result.more)
        hits = await self._newest_first(result.hits) if request.order == "modified" else list(result.hits)
        lines = [line.removeprefix(root) for line in _lines(hits, request)]
        page = lines[request.offset : request.offset + request.limit]
        return SearchResult(page, result.more or len(lines) > request.offset + len(page))

    async def _newest_first(self, hits: tuple[Hit, ...]) -> list[Hit]:
        modified: dict[str, int] = {}
        for hit in hits:
            if hit.path not in modified and len(modified) < MAX_ORDERED_FILES:
                with contextlib.suppress(SandboxError):
                    modified[hit.path] = (await self._sandbox.stat(hit.path)).mtime_ns
        return sorted(hits, key=lambda hit: -modified.get(hit.path, 0))


def _process(info: sandbox.ProcessInfo) -> ProcessInfo:
    return ProcessInfo(info.id, info.command, info.running, info.code, info.duration_ms / 1000, info.killed)


def _line(hit: Hit, request: SearchRequest) -> str:
    if request.target == "files":
        return hit.path
    mark = ":" if hit.match else "-"
    return f"{hit.path}{mark}{hit.line}{mark}{hit.text}"


def _lines(hits: list[Hit], request: SearchRequest) -> list[str]:
    if request.output_mode == "content" or request.target == "files":
        return [_line(hit, request) for hit in hits]
    counts = Counter(hit.path for hit in hits if hit.match)
    return [f"{path}:{count}" if request.output_mode == "count" else path for path, count in counts.items()]
