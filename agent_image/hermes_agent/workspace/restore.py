"""Put a snapshot back into an empty workspace."""

from __future__ import annotations

from collections.abc import AsyncIterator

from hermes_agent.sandbox import QuotaExceeded, Sandbox, SandboxError, Settling
from hermes_agent.workspace.manifest import Entry, Manifest
from hermes_agent.workspace.parallel import each
from hermes_agent.workspace.pieces import DamagedPiece, Pieces, fetch
from hermes_agent.workspace.plan import LeftOut
from hermes_contracts.errors import ErrorCode, HermesError

_WRITABLE = 0o700
_DAMAGED = "what was kept of it is damaged or gone"
_NO_ROOM = "the workspace has no room for it"


async def restore(sandbox: Sandbox, pieces: Pieces, manifest: Manifest) -> tuple[LeftOut, ...]:
    """Write everything the manifest names; return what could not be. One that failed is begun again, after `clear`.

    Links come after all content, so that no file is ever written through one; the modes and times of directories come
    last and from the inside out, because what is made in a directory changes them.

    Raises HermesError: the store or the sandbox does not answer.
    """
    directories = [entry for entry in manifest.entries if entry.type == "directory"]
    files = [entry for entry in manifest.entries if entry.type == "file"]
    await sandbox.settle([Settling(path=entry.path, type="directory", mode=_WRITABLE) for entry in directories])

    async def write(entry: Entry) -> str:
        try:
            await sandbox.write_pieces(entry.path, _content(pieces, entry), mode=entry.mode, sync=False)
        except DamagedPiece:
            return _DAMAGED
        except QuotaExceeded:
            return _NO_ROOM
        return ""

    lost = {entry.path: why for entry, why in zip(files, await each(files, write), strict=True) if why}
    whole = [entry for entry in files if entry.path not in lost]
    lost |= {entry.path: lost[entry.target] for entry in manifest.entries if entry.type == "hard" and entry.target in lost}
    links = [entry for entry in manifest.entries if entry.type in {"link", "hard"} and entry.path not in lost]
    await sandbox.settle([_as_link(entry) for entry in links])
    await sandbox.settle([_as_it_was(entry) for entry in (*whole, *reversed(directories))])
    return tuple(LeftOut(path, why) for path, why in lost.items())


async def clear(sandbox: Sandbox) -> None:
    """Remove what a restore that failed has left."""
    if not (await sandbox.list_directory()).total:
        return
    found = await sandbox.tree()
    folders = [item.path for item in found if item.type == "directory"]
    await sandbox.settle([Settling(path=path, type="directory", mode=_WRITABLE) for path in folders])
    for item in found:
        if "/" not in item.path:
            await sandbox.remove(item.path, recursive=True)


async def _content(pieces: Pieces, entry: Entry) -> AsyncIterator[bytes]:
    for digest in entry.pieces:
        try:
            yield await fetch(pieces, digest)
        except HermesError as error:
            if error.code is ErrorCode.NOT_FOUND and not isinstance(error, SandboxError):
                raise DamagedPiece(f"piece {digest} is gone") from error
            raise


def _as_link(entry: Entry) -> Settling:
    return Settling(
        path=entry.path,
        type="link" if entry.type == "link" else "hard",
        target=entry.target,
        mtime_ns=entry.mtime_ns if entry.type == "link" else None,
    )


def _as_it_was(entry: Entry) -> Settling:
    kind = "file" if entry.type == "file" else "directory"
    return Settling(path=entry.path, type=kind, mode=entry.mode, mtime_ns=entry.mtime_ns)
