"""Artefacts in folders named by a hash of what they were made from.

An artefact is made under a temporary name and renamed when it is whole, with a list of its files' hashes. One that is
half made, cut short or changed is made again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

MANIFEST = ".manifest.json"
KEY_LENGTH = 12


def content_key(parts: Iterable[str | bytes]) -> str:
    """A short hash of the parts; borders between parts count."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()[:KEY_LENGTH]


def file_digest(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def artefact(cache: Path, name: str, key: str, make: Callable[[Path], None]) -> Path:
    """The folder of artefact `name` with `key`, made by `make(folder)` unless a whole one is there.

    Other keys of the same name are removed after a successful build: they can be made again.
    """
    folder = cache / f"{name}-{key}"
    if is_whole(folder):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    partial = cache / f".partial-{name}-{key}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    make(partial)
    seal(partial)
    partial.rename(folder)
    for other in cache.glob(f"{name}-*"):
        if other != folder and len(other.name) == len(folder.name):
            shutil.rmtree(other, ignore_errors=True)
    return folder


def seal(folder: Path) -> None:
    """Write the list of a folder's files with their hashes."""
    files = {str(path.relative_to(folder)): file_digest(path) for path in _files(folder)}
    (folder / MANIFEST).write_text(json.dumps(files, indent=1, sort_keys=True))


def is_whole(folder: Path) -> bool:
    """Whether every file of a sealed folder is there, unchanged."""
    try:
        listed = json.loads((folder / MANIFEST).read_text())
        return isinstance(listed, dict) and all(file_digest(folder / name) == want for name, want in listed.items())
    except (OSError, ValueError):
        return False


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
