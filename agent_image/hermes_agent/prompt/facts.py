"""What a prompt is made of: plain values, gathered before the first request of a conversation."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True)
class ContextFile:
    """Instructions that a project carries; `text` is scanned and cut, or says why nothing was taken."""

    path: str
    text: str
    blocked: str = ""
    """Name of the pattern for which the file was not taken."""


@dataclass(frozen=True)
class Snapshot:
    """The workspace as it was when the conversation began; names are already safe to show."""

    branch: str = ""
    entries: tuple[str, ...] = ()
    """Top-level names, directories with a slash."""
    omitted: int = 0
    """Top-level names that are not shown."""


@dataclass(frozen=True)
class Workspace:
    """All that was read from the sandbox; empty when it could not be read."""

    snapshot: Snapshot | None = None
    files: tuple[ContextFile, ...] = ()


@dataclass(frozen=True)
class Facts:
    """Everything that `tiers.build` looks at."""

    persona: str
    tools: frozenset[str]
    workspace_path: str
    today: datetime
    """In UTC."""
    profile: str
    model: str
    channel: str = ""
    toolsets: tuple[str, ...] | None = None
    """What a scheduled run narrows the tools to; None: nothing is narrowed."""
    hint: str = ""
    """The administrator's sentence for this channel."""
    instructions: str = ""
    """What the caller of the conversation's first turn added."""
    workspace: Workspace = field(default_factory=Workspace)
