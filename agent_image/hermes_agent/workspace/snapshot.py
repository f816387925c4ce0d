"""Take a snapshot of a sandbox's workspace: read what changed, send what is not kept yet."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

from pydantic import ValidationError

from hermes_agent.sandbox import (
    NotAFile,
    NotFound,
    OutsideWorkspace,
    PermissionDenied,
    ProtocolError,
    Sandbox,
    TooLarge,
    TreeEntry,
)
from hermes_agent.sandbox.errors import IsDirectory, NotDirectory
from hermes_agent.workspace.manifest import MAX_FILE_BYTES, Entry, Manifest
from hermes_agent.workspace.parallel import each
from hermes_agent.workspace.pieces import Pieces, digest_of, pack
from hermes_agent.workspace.plan import LeftOut, Plan, Seen, plan
from hermes_contracts.store_api import PIECE_BYTES

_GONE = (NotFound, NotAFile, IsDirectory, NotDirectory, OutsideWorkspace)
_LATEST_NS = 1 << 62
UNREADABLE = "it cannot be read"


@dataclass(frozen=True)
class Snapshot:
    """What was taken. `seen` makes the next one cheap; `sent_bytes` counts packed pieces that were not kept before."""

    manifest: Manifest
    taken_at: float
    """Seconds since the epoch, before the first file was looked at: what changed after it may be missing."""
    seen: Mapping[str, Seen] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()
    sent_bytes: int = 0


async def take(
    sandbox: Sandbox,
    pieces: Pieces,
    seen: Mapping[str, Seen],
    kept: Set[str],
    *,
    max_bytes: int,
    now_ns: Callable[[], int] = time.time_ns,
) -> Snapshot:
    """Read what changed since `seen` and put its pieces, but for those in `kept`, which the caller has to claim.

    Files that vanish meanwhile are as if they had never been; one that changes while it is read is read again next time.

    Raises:
        TooLarge: the workspace holds more than `max_bytes`, or too many names.
        ProtocolError: the sandbox listed what no file system has.
    """
    started_ns = now_ns()
    planned = plan(await sandbox.tree(), seen)
    reader = _Reader(sandbox, pieces, kept, max_bytes)

    async def read(item: TreeEntry) -> tuple[Entry | None, int, str]:
        known = planned.known.get(item.path)
        if known is not None:
            return known, seen[item.path].read_ns, ""
        read_ns = now_ns()
        try:
            return await reader.entry(item), read_ns, ""
        except _GONE:
            return None, 0, ""
        except PermissionDenied:
            return None, 0, UNREADABLE

    return _whole(planned, await each(planned.found, read), started_ns, reader.sent_bytes)


def _whole(planned: Plan, read: list[tuple[Entry | None, int, str]], started_ns: int, sent_bytes: int) -> Snapshot:
    """Put together what was read; what hangs on a name that is not there is not there either."""
    entries: list[Entry] = []
    seen: dict[str, Seen] = {}
    left_out = list(planned.left_out)
    dropped: set[str] = set()
    for item, (entry, read_ns, why) in zip(planned.found, read, strict=True):
        if entry is None or (item.type == "hard" and item.target in dropped):
            dropped.add(item.path)
            if why:
                left_out.append(LeftOut(item.path, why))
            continue
        entries.append(entry)
        if item.type == "file":
            seen[item.path] = Seen(item.size, item.mtime_ns, item.ctime_ns, item.inode, read_ns, entry)
    try:
        manifest = Manifest(entries=tuple(entries))
    except ValidationError as error:
        raise ProtocolError(f"the sandbox listed what cannot be: {error.error_count()} errors") from error
    return Snapshot(manifest, started_ns / 1e9, seen, tuple(left_out), sent_bytes)


class _Reader:
    """Turns names into entries, sending each piece that is not kept yet."""

    def __init__(self, sandbox: Sandbox, pieces: Pieces, kept: Set[str], max_bytes: int) -> None:
        self.sent_bytes = 0
        self._sandbox = sandbox
        self._pieces = pieces
        self._kept = kept
        self._sent: set[str] = set()
        self._max_bytes = max_bytes
        self._read_bytes = 0

    async def entry(self, item: TreeEntry) -> Entry:
        size, digests = 0, list[str]()
        if item.type == "file":
            size, digests = await self._content(item)
        mtime_ns = max(-_LATEST_NS, min(item.mtime_ns, _LATEST_NS))
        try:
            return Entry.model_validate(
                {
                    "path": item.path,
                    "type": item.type,
                    "mode": item.mode,
                    "mtime_ns": mtime_ns,
                    "size": size,
                    "pieces": tuple(digests),
                    "target": item.target,
                }
            )
        except ValidationError as error:
            raise ProtocolError(f"the sandbox listed what cannot be: {error.error_count()} errors") from error

    async def _content(self, item: TreeEntry) -> tuple[int, list[str]]:
        size = 0
        digests: list[str] = []
        # To the end that the file has now, not the one it was listed with; a log that grows has one all the same.
        while size <= MAX_FILE_BYTES - PIECE_BYTES:
            data = await self._sandbox.read_file(item.path, offset=size, length=PIECE_BYTES)
            size += len(data)
            self._read_bytes += len(data)
            if self._read_bytes > self._max_bytes:
                raise TooLarge(f"the workspace holds more than the {self._max_bytes} bytes of a snapshot")
            if data:
                digests.append(await self._keep(data))
            if len(data) < PIECE_BYTES:
                break
        return size, digests

    async def _keep(self, data: bytes) -> str:
        digest = await asyncio.to_thread(digest_of, data)
        if digest not in self._kept and digest not in self._sent:
            self._sent.add(digest)
            packed = await asyncio.to_thread(pack, data)
            await self._pieces.put(digest, packed)
            self.sent_bytes += len(packed)
        return digest
