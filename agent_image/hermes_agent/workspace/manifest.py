"""What a snapshot says, checked as strictly when it is read as when it is made: the sandbox may have written it."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hermes_contracts.store_api import PIECE_BYTES

MAX_ENTRIES = 20_000
"""Most names in one snapshot: all of them are held in memory, and an agent's is small."""
MAX_FILE_BYTES = 512 * 1024 * 1024
"""Larger files are left out, and said to be."""

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""SHA-256 of a piece as it is in the file."""
EntryPath = Annotated[str, Field(min_length=1, max_length=4096)]


class Entry(BaseModel):
    """One name below the workspace; `target` is what a link says, or the path whose file a hard link shares."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: EntryPath
    type: Literal["directory", "file", "link", "hard"]
    mode: int = Field(default=0o644, ge=0, le=0o7777)
    mtime_ns: int = Field(default=0, ge=-(1 << 62), le=1 << 62)
    size: int = Field(default=0, ge=0, le=MAX_FILE_BYTES)
    pieces: tuple[Digest, ...] = ()
    target: Annotated[str, Field(max_length=4096)] = ""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        path = PurePosixPath(self.path)
        if path.is_absolute() or ".." in path.parts or str(path) != self.path or "\0" in self.path or self.path == ".":
            raise ValueError(f"path: {self.path!r} is not a plain path below the workspace")
        if (self.type in {"link", "hard"}) != bool(self.target):
            raise ValueError("target: links have one, and nothing else has")
        wanted = -(-self.size // PIECE_BYTES) if self.type == "file" else 0
        if len(self.pieces) != wanted or (self.type != "file" and self.size):
            raise ValueError(f"pieces: {len(self.pieces)} are not the {wanted} of a {self.type} of {self.size} bytes")
        return self


class Manifest(BaseModel):
    """A whole snapshot: parents before what is in them, a shared file before its hard links."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    entries: Annotated[tuple[Entry, ...], Field(max_length=MAX_ENTRIES)] = ()

    @model_validator(mode="after")
    def _is_a_tree(self) -> Self:
        kinds: dict[str, str] = {"": "directory"}
        for entry in self.entries:
            parent = entry.path.rpartition("/")[0]
            if kinds.get(parent) != "directory":
                raise ValueError(f"path: the parent of {entry.path!r} is no directory of this snapshot")
            if entry.path in kinds:
                raise ValueError(f"path: {entry.path!r} is there twice")
            if entry.type == "hard" and kinds.get(entry.target) != "file":
                raise ValueError(f"target: {entry.target!r} is no file of this snapshot before {entry.path!r}")
            kinds[entry.path] = entry.type
        return self

    def pieces(self) -> frozenset[str]:
        """Return every piece that this snapshot needs."""
        return frozenset(piece for entry in self.entries for piece in entry.pieces)
