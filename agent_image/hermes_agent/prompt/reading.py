"""Reads small texts from a workspace that may be hostile: sizes lie, files vanish, names are anything."""

from __future__ import annotations

from typing import Protocol

from hermes_agent.tools.sandbox_port import FileInfo, SandboxFailure


class WorkspaceFiles(Protocol):
    """What is read of a sandbox; `tools.sandbox_port.SandboxPort` has it all. Every method raises SandboxFailure."""

    async def stat(self, path: str) -> FileInfo | None:
        """Say what a path is; None when there is nothing."""
        ...

    async def read_file(self, path: str, *, offset: int, limit: int) -> bytes:
        """Read at most `limit` bytes from an offset in bytes."""
        ...

    async def list_directory(self, path: str, *, limit: int) -> tuple[list[str], int]:
        """Return the first `limit` names in a directory (directories end with a slash), and how many there are."""
        ...


async def read_text(files: WorkspaceFiles, path: str, *, max_characters: int) -> str | None:
    """Return a regular file's text, at most about 4 × `max_characters` bytes of it: all, or its head and its tail.

    None when there is no such file, it cannot be read, is empty or is no text.
    """
    try:
        info = await files.stat(path)
        if info is None or info.kind != "file" or info.size <= 0:
            return None
        budget = 4 * max_characters
        data = await files.read_file(path, offset=0, limit=min(info.size, budget))
        if info.size > budget:
            data += b"\n" + await files.read_file(path, offset=info.size - budget // 4, limit=budget // 4)
    except SandboxFailure:
        return None
    if not data or b"\0" in data:
        return None
    return data.decode("utf-8", "replace")
