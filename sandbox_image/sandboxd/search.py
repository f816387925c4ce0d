"""Runs as a command of its own, so that a bad pattern or an endless tree can be killed."""

from __future__ import annotations

import json
import os
import sys

from sandboxd.protocol import number, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sandboxd.protocol import Json


def search(request: Json) -> int:
    """Print one JSON object a line for each hit: `{path, line, text, match}` or, for target `files`, `{path}`."""
    import shutil

    target, pattern, root = request.get("target", "content"), request["pattern"], request["path"]
    glob, context = request.get("glob") or "", number(request, "context", 0, 0, 20)
    program = shutil.which("rg")
    if program is None:
        return search_without_ripgrep(target, pattern, root, glob, context)
    argv = [program, "--color=never", "--no-messages", "--no-config", "--sort=path", "--hidden", "--glob=!.git/"]
    if target == "files":
        argv += ["--files", "--null", "--glob=" + pattern]
    else:
        argv += ["--null", "--line-number", "--no-heading", "--with-filename", "--max-columns=2000", "--max-columns-preview"]
        argv += ["--no-context-separator", "--context=%d" % context] + (["--glob=" + glob] if glob else [])
        argv += ["--regexp=" + pattern]
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    actions = [(os.POSIX_SPAWN_DUP2, writer, 1)]
    pid = os.posix_spawn(program, [*argv, "--", root], os.environ, file_actions=actions)
    os.close(writer)
    with os.fdopen(reader, "rb") as found:
        print_hits(found, target)
    status = os.waitpid(pid, 0)[1]
    return 2 if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 2 else 0


def print_hits(found: Any, target: str) -> None:
    """Translate ripgrep's `path NUL line:text`."""
    if target == "files":
        for raw in found.read().split(b"\0")[:-1]:
            emit({"path": raw.decode("utf-8", "replace")})
        return
    for raw in found:
        path, _, rest = raw.partition(b"\0")
        digits = len(rest) - len(rest.lstrip(b"0123456789"))
        if digits:
            text = rest[digits + 1 :].rstrip(b"\r\n").decode("utf-8", "replace")
            print_hit(path.decode("utf-8", "replace"), int(rest[:digits]), text, rest[digits : digits + 1] == b":")


def print_hit(path: str, line: int, text: str, match: bool) -> None:
    """One line of a file."""
    emit({"path": path, "line": line, "text": text[:2000], "match": match})


def emit(hit: Json) -> None:
    """Print one hit."""
    sys.stdout.write(json.dumps(hit) + "\n")


def search_without_ripgrep(target: str, pattern: str, root: str, glob: str, context: int) -> int:
    """The same in Python: slower, and it does not read .gitignore files."""
    import fnmatch
    import re

    try:
        expression = re.compile(pattern.encode("utf-8", "surrogateescape"))
    except re.error as error:
        if target == "content":
            sys.stderr.write("regex parse error: %s\n" % error)
            return 2
    wanted = pattern if target == "files" else glob
    tree = os.walk(root) if os.path.isdir(root) else [(os.path.dirname(root), [], [os.path.basename(root)])]
    for folder, directories, files in tree:
        directories[:] = sorted(name for name in directories if name != ".git")
        for name in sorted(files):
            path = os.path.join(folder, name)
            if wanted and not fnmatch.fnmatch(os.path.relpath(path, root) if "/" in wanted else name, wanted):
                continue
            if target == "files":
                emit({"path": shown(path)})
            elif os.path.isfile(path) and not os.path.islink(path):
                grep(path, expression, context)
    return 0


def grep(path: str, expression: Any, context: int) -> None:
    """Print the matching lines of one text file, and those around them."""
    try:
        with open(path, "rb") as file:
            lines = file.read(16 << 20).split(b"\n")
    except OSError:
        return
    if any(b"\0" in line for line in lines[:50]):
        return
    hits = {index for index, line in enumerate(lines) if expression.search(line)}
    printed = {near for index in hits for near in range(max(0, index - context), min(len(lines), index + context + 1))}
    for index in sorted(printed):
        print_hit(shown(path), index + 1, lines[index].decode("utf-8", "replace"), index in hits)
