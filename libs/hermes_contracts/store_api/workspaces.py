"""What an agent calls to keep the workspace of kind Archive: pieces of files, and snapshots that name them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from hermes_contracts.store_api.base import StoreModel

PIECE_BYTES = 256 * 1024
"""A file is kept in pieces of this size, the last one shorter: packed and in base64, one fits a message of the bus."""
MAX_PACKED_BYTES = PIECE_BYTES + 1
"""A packed piece: one byte says how, and packing never makes it longer."""
MAX_CLAIMED = 5_000
"""Most digests in one request."""
MAX_PARTS = 256
"""Most pieces of a snapshot's own list of files."""
MAX_LEFT_OUT = 4_000
MAX_ARCHIVE_BYTES = 1024**3
"""Largest workspace of kind Archive."""

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""SHA-256 of a piece before it is packed."""
Number = Annotated[int, Field(ge=1, lt=1 << 31)]


class WorkspaceState(StoreModel):
    """What is kept of a session's workspace, as its agent finds it at its start."""

    is_first: bool = False
    """No agent of this session has had a workspace yet: nothing can have been lost."""
    is_open: bool = False
    """An agent of this epoch has opened it: it started again, and its files are where they were."""
    number: int = 0
    """The last snapshot; 0: there is none."""
    parts: tuple[Digest, ...] = Field(default=(), max_length=MAX_PARTS)
    """The pieces of its list of files, in order."""
    taken_at: float = 0.0
    """Seconds since the epoch: what changed later is not in it."""
    is_final: bool = False
    """Taken when the agent slept: nothing was changed after it."""
    left_out: str = ""
    """What was in the workspace and is not in the snapshot, in words for the model."""


class ClaimPiecesRequest(StoreModel):
    """Say which pieces snapshot `number` needs. Those that are there are kept for it."""

    number: Number
    digests: tuple[Digest, ...] = Field(max_length=MAX_CLAIMED)


class MissingPieces(StoreModel):
    """Those that are not there."""

    digests: tuple[Digest, ...]


class PutPieceRequest(StoreModel):
    """Keep a piece, and claim it for snapshot `number`; one that is there already is not written again."""

    number: Number
    digest: Digest
    data: Annotated[str, StringConstraints(max_length=(MAX_PACKED_BYTES + 2) // 3 * 4)]
    """Packed, in base64."""


class GetPieceRequest(StoreModel):
    """Read a piece. NOT_FOUND when it is not there."""

    digest: Digest


class PieceReply(StoreModel):
    """As it was put."""

    data: str
    """Packed, in base64."""


class CommitSnapshotRequest(StoreModel):
    """Make a snapshot the session's. One whose number is the last one's moves only its time and `final` on.

    CONFLICT when not all of its pieces are there: claim them again. FENCED when the epoch is over.
    """

    number: Number
    parts: tuple[Digest, ...] = Field(min_length=1, max_length=MAX_PARTS)
    pieces: int = Field(ge=1)
    """How many pieces it has claimed, parts included: the others are deleted."""
    taken_at: float
    final: bool = False
    left_out: Annotated[str, StringConstraints(max_length=MAX_LEFT_OUT)] = ""
