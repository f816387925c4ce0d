"""`Sandbox`: what the agent's tools use. Connects when needed, and again after the sandbox has restarted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Sequence
from typing import Self

from hermes_agent.sandbox import frames
from hermes_agent.sandbox.connection import Channel, Connection, open_connection
from hermes_agent.sandbox.errors import Invalid, ProtocolError, SandboxTimeout, TooLarge
from hermes_agent.sandbox.execution import MARGIN_SECONDS, ExecResult, ExecStream, collect
from hermes_agent.sandbox.frames import Kind
from hermes_agent.sandbox.messages import ExecRequest, FileInfo, Listing, Settled, Status, TreeEntry, Written, parse
from hermes_agent.sandbox.processes import ANSWER_SECONDS, Processes
from hermes_agent.sandbox.searching import SearchQuery, SearchResult, gather
from hermes_agent.sandbox.trees import TREE_SECONDS, Settling, settling_pages, take_tree

DEFAULT_OUTPUT_BYTES = 50_000
MAX_OUTPUT_BYTES = 4 * 1024 * 1024
MAX_FILE_BYTES = 64 * 1024 * 1024
TRANSFER_SECONDS = 300.0


class Sandbox:
    """One sandbox behind one Unix socket.

    Every method raises SandboxGone when the sandbox restarts during the call, and SandboxTimeout when it does not
    answer; the next call connects again. Nothing is repeated by itself: a command may have done its work.
    """

    def __init__(self, path: str, *, connect_seconds: float = 10.0, margin_seconds: float = MARGIN_SECONDS) -> None:
        self.processes = Processes(self._call)
        self._path = path
        self._connect_seconds = connect_seconds
        self._margin_seconds = margin_seconds
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()

    @classmethod
    async def connect(cls, path: str, *, timeout: float = 10.0) -> Self:
        """Connect now, waiting up to `timeout` seconds for a sandbox that is still starting."""
        sandbox = cls(path, connect_seconds=timeout)
        await sandbox._connected()
        return sandbox

    async def close(self) -> None:
        """End the connection; everything that still runs in the sandbox is killed."""
        if self._connection:
            self._connection.close()
            self._connection = None

    async def workspace(self) -> str:
        """The absolute path that relative ones start from."""
        return (await self._connected()).workspace

    async def exec(self, request: ExecRequest) -> ExecStream:
        """Start a foreground command and stream its output; use as a context manager, leaving it kills."""
        connection = await self._connected()
        return ExecStream(connection.request(request.wire()), request.timeout_seconds, self._margin_seconds)

    async def run(
        self, request: ExecRequest, *, stdin: bytes | None = None, max_output_bytes: int = DEFAULT_OUTPUT_BYTES
    ) -> ExecResult:
        """Run a command to its end and keep at most `max_output_bytes` of each output (first 40 %, last 60 %).

        Raises:
            NotFound: no such program or directory.
            Busy: too many commands run.
        """
        if not 1 <= max_output_bytes <= MAX_OUTPUT_BYTES:
            raise Invalid(f"max_output_bytes: {max_output_bytes} is not between 1 and {MAX_OUTPUT_BYTES}")
        if stdin is not None:
            request = request.model_copy(update={"stdin": True})
        connection = await self._connected()
        channel = connection.request(request.wire(max_output_bytes=max_output_bytes), most=2 * max_output_bytes)
        async with ExecStream(channel, request.timeout_seconds, self._margin_seconds) as stream:
            if stdin is None:
                return await collect(stream, max_output_bytes * 2 // 5)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_feed(stream, stdin))
                result = await collect(stream, max_output_bytes * 2 // 5)
            return result

    async def read_file(
        self, path: str, *, offset: int = 0, length: int | None = None, max_bytes: int = MAX_FILE_BYTES
    ) -> bytes:
        """Bytes of a regular file: all, or `length` from `offset`.

        Raises:
            TooLarge: there are more than `max_bytes`; ask for a range.
            NotFound, IsDirectory, NotAFile, PermissionDenied, OutsideWorkspace: as they say.
        """
        wanted = max_bytes + 1 if length is None else length
        if wanted > MAX_FILE_BYTES + 1:
            raise TooLarge(f"length: {wanted} bytes are too many for one call; {MAX_FILE_BYTES} is the most")
        body: dict[str, object] = {"op": "read", "path": path, "offset": offset, "length": wanted}
        data, result = await self._call(body, TRANSFER_SECONDS, most=wanted)
        if length is None and len(data) > max_bytes:
            size = parse(FileInfo, result).size
            raise TooLarge(f"{path}: {size} bytes are more than the {max_bytes} asked for; read a range")
        return data

    async def write_file(self, path: str, data: bytes, *, mode: int | None = None, make_parents: bool = True) -> Written:
        """Write a whole file so that readers see the old or the new one, never half; on disk when this returns.

        Args:
            path: Relative to the workspace; a link is followed, if it stays inside.
            data: The whole content.
            mode: Permission bits; default: those of the file there was, or 0o644.
            make_parents: Make missing directories.

        Raises:
            QuotaExceeded: the workspace is full.
            IsDirectory, NotFound, PermissionDenied, OutsideWorkspace: as they say.
        """
        body: dict[str, object] = {"op": "write", "path": path, "make_parents": make_parents}
        if mode is not None:
            body["mode"] = mode
        _, result = await self._call(body, TRANSFER_SECONDS, data)
        return parse(Written, result)

    async def write_pieces(self, path: str, pieces: AsyncIterable[bytes], *, mode: int, sync: bool = True) -> Written:
        """As `write_file`, for content that does not fit into memory: one piece at a time, the whole file or nothing.

        With `sync` False it is there at once and on disk some time later: for what is kept elsewhere too.
        """
        body: dict[str, object] = {"op": "write", "path": path, "make_parents": False, "mode": mode, "sync": sync}
        channel = (await self._connected()).request(body)
        try:
            async with asyncio.timeout(TRANSFER_SECONDS):
                async for piece in pieces:
                    await channel.send_input(piece)
                channel.end_input()
                _, result = await _take(channel, 0)
        except TimeoutError as error:
            raise SandboxTimeout(f"write: {path} was not written within {TRANSFER_SECONDS:g} s") from error
        finally:
            channel.release()
        return parse(Written, result)

    async def tree(self) -> tuple[TreeEntry, ...]:
        """Everything in the workspace, parents before what is in them; links are not followed.

        Raises:
            TooLarge: there are too many names to take in.
        """
        connection = await self._connected()
        body: dict[str, object] = {"op": "tree", "timeout_ms": int(TREE_SECONDS * 1000)}
        async with ExecStream(connection.request(body), TREE_SECONDS, self._margin_seconds) as stream:
            return await take_tree(stream)

    async def settle(self, entries: Sequence[Settling]) -> None:
        """Make directories and links and set modes and times, one after the other as given; files must be there.

        Raises:
            AlreadyThere, NotFound, OutsideWorkspace: as they say; entries before the refused one are done.
        """
        for page in settling_pages(entries):
            _, result = await self._call({"op": "settle", "entries": page}, TRANSFER_SECONDS)
            if parse(Settled, result).settled != len(page):
                raise ProtocolError("settle: the sandbox did not do all that it was asked to")

    async def list_directory(self, path: str = ".", *, offset: int = 0, limit: int = 1000) -> Listing:
        """Names in a directory, from `offset`, in order."""
        _, result = await self._call({"op": "list", "path": path, "offset": offset, "limit": limit}, ANSWER_SECONDS)
        return parse(Listing, result)

    async def stat(self, path: str, *, follow: bool = True) -> FileInfo:
        """What is at a path; `path` in the answer is the real one."""
        _, result = await self._call({"op": "stat", "path": path, "follow": follow}, ANSWER_SECONDS)
        return parse(FileInfo, result)

    async def mkdir(self, path: str) -> None:
        """Make a directory and its parents; one that exists is fine."""
        await self._call({"op": "mkdir", "path": path}, ANSWER_SECONDS)

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        """Remove a file, a link or a directory (a full one only when `recursive`)."""
        await self._call({"op": "remove", "path": path, "recursive": recursive}, TRANSFER_SECONDS)

    async def move(self, path: str, to: str) -> None:
        """Rename; an existing file at `to` is replaced."""
        await self._call({"op": "move", "path": path, "to": to}, ANSWER_SECONDS)

    async def search(self, query: SearchQuery) -> SearchResult:
        """Find lines or files.

        Raises:
            Invalid: the pattern is no regular expression.
            SandboxTimeout: it took longer than `query.timeout_seconds`.
        """
        connection = await self._connected()
        async with ExecStream(connection.request(query.wire()), query.timeout_seconds, self._margin_seconds) as stream:
            return await gather(stream, query)

    async def status(self) -> Status:
        """What is used and allowed: memory, processes, disk."""
        _, result = await self._call({"op": "status"}, ANSWER_SECONDS)
        return parse(Status, result)

    async def _connected(self) -> Connection:
        async with self._connecting:
            if self._connection is None or self._connection.lost:
                self._connection = await open_connection(self._path, timeout=self._connect_seconds)
            return self._connection

    async def _call(
        self, body: dict[str, object], timeout: float, data: bytes | None = None, most: int = frames.MAX_PAYLOAD
    ) -> tuple[bytes, bytes]:
        """Send a request (with input, if any) and take in at most so much output, and the result."""
        channel = (await self._connected()).request(body)
        try:
            async with asyncio.timeout(timeout):
                if data is not None:
                    await channel.send_input(data)
                    channel.end_input()
                return await _take(channel, most)
        except TimeoutError as error:
            raise SandboxTimeout(f"{body['op']}: the sandbox did not answer within {timeout:g} s") from error
        finally:
            channel.release()


async def _take(channel: Channel, most: int) -> tuple[bytes, bytes]:
    pieces: list[bytes] = []
    size = 0
    while True:
        kind, payload = await channel.receive()
        if kind is Kind.RESULT:
            return b"".join(pieces), payload
        size += len(payload)
        if size > most:
            raise ProtocolError(f"the sandbox sent more output than the {most} bytes asked for")
        pieces.append(payload)


async def _feed(stream: ExecStream, data: bytes) -> None:
    await stream.send(data)
    stream.close_input()
