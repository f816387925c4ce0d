"""Paths of requests, confined to the workspace and the other allowed roots; directories."""

from __future__ import annotations

import json
import os
import stat

from sandboxd.protocol import MAX_PAYLOAD, Refused, shown
from sandboxd.system import quietly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from sandboxd.protocol import Json


class Paths:
    """Where the file operations may go. A net for a confused caller: commands run as the same user and need no such door."""

    def __init__(self, workspace: str, roots: List[str]) -> None:
        self.workspace = os.path.realpath(workspace)
        self.roots = [self.workspace] + [os.path.realpath(root) for root in roots]

    def resolve(self, path: Any, last_link: bool = True) -> str:
        """The real absolute path, links followed; with `last_link` false the last part itself is not followed."""
        if not isinstance(path, str) or not path or "\0" in path or len(path) > 4096:
            raise Refused("invalid", "path: must be 1 to 4096 characters without NUL")
        path = os.path.normpath(os.path.join(self.workspace, path)) if not last_link else os.path.join(self.workspace, path)
        real: str = os.path.realpath(path)
        if not last_link:
            real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        if not any(root == "/" or real == root or real.startswith(root + "/") for root in self.roots):
            raise Refused("outside_workspace", "%s: outside of %s" % (path, ", ".join(self.roots)))
        return real

    def directory(self, path: str) -> str:
        """A directory a command may start in: any, since a command can go anywhere."""
        real = os.path.join(self.workspace, path)
        if not os.path.isdir(real):
            raise Refused("not_found", "cwd: %s is not a directory" % real)
        return real


KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}


def describe(info: os.stat_result) -> Json:
    """What a listing says about one file."""
    kind = KINDS.get(stat.S_IFMT(info.st_mode), "other")
    return {"type": kind, "size": info.st_size, "mtime_ns": info.st_mtime_ns, "mode": stat.S_IMODE(info.st_mode)}


def list_directory(path: str, offset: int, limit: int) -> Json:
    """Entries in order of name, as many as fit one frame; `total` says how many there are."""
    names = sorted(os.listdir(path))
    entries: List[Json] = []
    room = MAX_PAYLOAD - 1024
    for name in names[offset : offset + limit]:
        info = quietly(os.lstat, os.path.join(path, name))
        entry = (
            dict(describe(info), name=shown(name))
            if info
            else {"name": shown(name), "type": "other", "size": 0, "mtime_ns": 0, "mode": 0}
        )
        room -= len(json.dumps(entry)) + 2
        if room < 0:
            break
        entries.append(entry)
    return {"entries": entries, "total": len(names)}


def remove(path: str, recursive: bool) -> Json:
    """Remove a file, a link (not what it names) or a directory; never follows links on the way down."""
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        os.unlink(path)
    elif not recursive:
        os.rmdir(path)
    else:
        for folder, directories, files in os.walk(path, topdown=False):
            for name in files:
                os.unlink(os.path.join(folder, name))
            for name in directories:
                full = os.path.join(folder, name)
                (os.unlink if os.path.islink(full) else os.rmdir)(full)
        os.rmdir(path)
    return {}


def usage_of(root: str) -> int:
    """Bytes on disk below a directory; each file counts once however many names it has."""
    total, seen, folders = 0, set(), [root]
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            continue
        for entry in entries:
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if info.st_nlink > 1 and not stat.S_ISDIR(info.st_mode):
                if info.st_ino in seen:
                    continue
                seen.add(info.st_ino)
            total += info.st_blocks * 512
            if stat.S_ISDIR(info.st_mode):
                folders.append(entry.path)
    return total
