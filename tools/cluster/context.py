"""What a Dockerfile takes from the repository: read from its text, hashed, and put into a build context of its own."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterable
from pathlib import Path

from cluster.console import ClusterError

IGNORED_FOLDERS = {"__pycache__", ".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", "node_modules"}
IGNORED_ENDINGS = {".pyc", ".pyo"}
MOUNT = re.compile(r"--mount=(\S*type=bind\S*)")


def sources(dockerfile: str) -> list[str]:
    """Paths and patterns that COPY, ADD and bind mounts take from the context, in order of appearance."""
    found: list[str] = []
    text = re.sub(r"\\[ \t]*\n", " ", re.sub(r"^\s*#.*\n", "", dockerfile, flags=re.MULTILINE))
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word.upper() in ("COPY", "ADD"):
            found += _copied(rest.strip())
        elif word.upper() == "RUN":
            found += _mounted(rest)
    return list(dict.fromkeys(found))


def _copied(rest: str) -> list[str]:
    while rest.startswith("--"):
        flag, _, rest = rest.partition(" ")
        rest = rest.strip()
        if flag.startswith("--from="):
            return []
    words = json.loads(rest) if rest.startswith("[") else shlex.split(rest)
    return [name for name in words[:-1] if "://" not in name]


def _mounted(rest: str) -> list[str]:
    found = []
    for options in MOUNT.findall(rest):
        pairs = dict(pair.partition("=")[::2] for pair in options.split(","))
        source = pairs.get("source") or pairs.get("src")
        if source and "from" not in pairs:
            found.append(source)
    return found


def files(root: Path, names: Iterable[str]) -> list[Path]:
    """Every file below `root` that the names mean, relative to it and sorted.

    Raises ClusterError naming one that is not there or leaves the repository.
    """
    found: set[Path] = set()
    for name in names:
        pattern = name.strip("/")
        if pattern in ("", ".") or ".." in Path(pattern).parts:
            raise ClusterError(f"COPY {name}: name folders and files of the repository, not all of it or what is above it")
        matches = list(root.glob(pattern))
        if not matches:
            raise ClusterError(f"COPY {name}: no such file in the repository")
        for match in matches:
            found.update(_below(root, match))
    return sorted(found)


def _below(root: Path, path: Path) -> Iterable[Path]:
    candidates = path.rglob("*") if path.is_dir() else [path]
    for entry in candidates:
        relative = entry.relative_to(root)
        if entry.is_file() and entry.suffix not in IGNORED_ENDINGS and not IGNORED_FOLDERS & set(relative.parts):
            yield relative


def key_parts(root: Path, names: Iterable[Path]) -> list[str | bytes]:
    """What decides whether an image must be rebuilt: name, executable bit and bytes of each file."""
    parts: list[str | bytes] = []
    for name in names:
        path = root / name
        parts += [str(name), str(path.stat().st_mode & 0o111), path.read_bytes()]
    return parts


def stage(root: Path, names: Iterable[Path], folder: Path) -> None:
    """Copy the files into a build context, so that nothing else of the repository can reach an image."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, folder / name)
