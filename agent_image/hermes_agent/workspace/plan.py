"""Which files a new snapshot has to read, and what it leaves out. Decisions only: nothing is read here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hermes_agent.sandbox.messages import TreeEntry
from hermes_agent.workspace.manifest import MAX_ENTRIES, MAX_FILE_BYTES, Entry

RACY_NS = 2_000_000_000
"""A file that changed so shortly before it was read may change again without its times showing it."""

_REASONS = {
    "other": "neither a file nor a directory nor a link",
    "unnamed": "its name is not UTF-8",
    "unreadable": "it cannot be read",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as it was when its pieces were read, and when that was."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    read_ns: int
    entry: Entry

    def is_still(self, found: TreeEntry) -> bool:
        """Tell whether the file is surely what was read."""
        same = (found.size, found.mtime_ns, found.ctime_ns, found.inode) == (
            self.size,
            self.mtime_ns,
            self.ctime_ns,
            self.inode,
        )
        return same and self.ctime_ns + RACY_NS < self.read_ns


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A path that is not in the snapshot, and why, in words for the model."""

    path: str
    why: str


@dataclass(frozen=True)
class Plan:
    """The names to keep, in order; files among `known` need no reading."""

    found: tuple[TreeEntry, ...]
    known: Mapping[str, Entry]
    left_out: tuple[LeftOut, ...]


def plan(found: Iterable[TreeEntry], seen: Mapping[str, Seen]) -> Plan:
    """Decide about each name. A hard link whose file was left out is left out too."""
    keep: list[TreeEntry] = []
    known: dict[str, Entry] = {}
    left_out: list[LeftOut] = []
    dropped: set[str] = set()
    for item in found:
        why = _why_not(item, dropped, len(keep))
        if why:
            left_out.append(LeftOut(item.path, why))
            dropped.add(item.path)
            continue
        keep.append(item)
        before = seen.get(item.path)
        if item.type == "file" and before is not None and before.is_still(item):
            known[item.path] = before.entry.model_copy(update={"mode": item.mode})
    return Plan(tuple(keep), known, tuple(left_out))


def _why_not(item: TreeEntry, dropped: set[str], kept: int) -> str:
    if item.type in _REASONS:
        return _REASONS[item.type]
    if item.type == "file" and item.size > MAX_FILE_BYTES:
        return f"{item.size} bytes are more than the {MAX_FILE_BYTES} of one file"
    if item.type == "hard" and item.target in dropped:
        return f"it is the same file as {item.target}"
    if item.path.rpartition("/")[0] in dropped:
        return "its directory was left out"
    if kept >= MAX_ENTRIES:
        return f"there are more than {MAX_ENTRIES} files"
    return ""
