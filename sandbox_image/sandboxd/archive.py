"""What a snapshot of the workspace needs: the whole tree as lines, and names put back that are no plain files."""

from __future__ import annotations

import json
import os
import stat
import sys

from sandboxd.paths import KINDS
from sandboxd.protocol import Refused, field, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

    from sandboxd.paths import Paths
    from sandboxd.protocol import Json

MAX_SETTLED = 2000


def tree(root: str) -> int:
    """Print one JSON object a line for everything below a directory, parents first, links not followed.

    A name or a link's target that is not UTF-8 cannot be asked for again, so it is `unnamed`; what cannot be read
    is `unreadable`. What vanishes meanwhile is left out.
    """
    first: Dict[Tuple[int, int], str] = {}
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            names = sorted(os.listdir(os.path.join(root, folder)))
        except FileNotFoundError:
            continue
        except OSError:
            emit({"path": folder, "type": "unreadable"})
            continue
        below: List[str] = []
        for name in names:
            path = os.path.join(folder, name)
            try:
                line = entry(root, path, first)
            except OSError:
                continue
            emit(line)
            if line["type"] == "directory":
                below.append(path)
        folders.extend(reversed(below))
    return 0


def entry(root: str, path: str, first: Dict[Tuple[int, int], str]) -> Json:
    """Describe one name; `first` remembers under which name a file with several was seen."""
    full = os.path.join(root, path)
    info = os.lstat(full)
    target = os.readlink(full) if stat.S_ISLNK(info.st_mode) else ""
    try:
        (path + target).encode("utf-8")
    except UnicodeEncodeError:
        return {"path": os.fsencode(path).decode("utf-8", "replace"), "type": "unnamed"}
    kind = KINDS.get(stat.S_IFMT(info.st_mode), "other")
    line: Json = {"path": path, "type": kind, "mode": stat.S_IMODE(info.st_mode), "mtime_ns": info.st_mtime_ns}
    if kind == "link":
        line["target"] = target
    elif kind == "file":
        line.update(size=info.st_size, ctime_ns=info.st_ctime_ns, inode=info.st_ino)
        if not os.access(full, os.R_OK):
            line["type"] = "unreadable"
        elif info.st_nlink > 1:
            same = first.setdefault((info.st_dev, info.st_ino), path)
            if same != path:
                line.update(type="hard", target=same)
    return line


def emit(line: Json) -> None:
    """Print one line."""
    sys.stdout.write(json.dumps(line) + "\n")


def checked_entries(request: Json) -> List[Any]:
    """Check the entries of a request, before any of them is done: (type, real path, target, mode, time)."""
    entries = field(request, "entries", list, [])
    if not 1 <= len(entries) <= MAX_SETTLED:
        raise Refused("invalid", "entries: %d; send 1 to %d" % (len(entries), MAX_SETTLED))
    checked = []
    for item in entries:
        if not isinstance(item, dict):
            raise Refused("invalid", "entries: every one must be an object")
        kind, path, target = item.get("type"), item.get("path"), field(item, "target", str, "")
        if kind not in ("directory", "file", "link", "hard"):
            raise Refused("invalid", "type: must be directory, file, link or hard")
        if not isinstance(path, str) or os.path.isabs(path) or ".." in path.split("/"):
            raise Refused("invalid", "path: must be relative, without ..")
        if kind == "link" and (not target or "\0" in target or len(target) > 4096):
            raise Refused("invalid", "target: must be 1 to 4096 characters without NUL")
        mode = number(item, "mode", None, 0, 0o7777)
        checked.append((kind, path, target, mode, number(item, "mtime_ns", None, -(1 << 62), 1 << 62)))
    return checked


def put(paths: Paths, checked: List[Any]) -> Json:
    """Make directories and links, and set modes and times, in the order given; the last part of a path is never followed."""
    for kind, path, target, mode, mtime_ns in checked:
        # Resolved one by one: an entry before may have made a link that this one's path leads over.
        real = paths.resolve(path, last_link=False)
        if kind == "directory":
            os.makedirs(real, exist_ok=True)
        elif kind == "link":
            os.symlink(target, real)
        elif kind == "hard":
            os.link(paths.resolve(target, last_link=False), real, follow_symlinks=False)
            continue
        if mode is not None and kind != "link":
            if stat.S_ISLNK(os.lstat(real).st_mode):
                raise Refused("invalid", "%s: is a link, and was said to be a %s" % (path, kind))
            os.chmod(real, mode)
        if mtime_ns is not None:
            os.utime(real, ns=(mtime_ns, mtime_ns), follow_symlinks=False)
    return {"settled": len(checked)}
