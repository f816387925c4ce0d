"""What the prompt says of the workspace, read once at a conversation's start: bounded in time and in bytes, best effort."""

from __future__ import annotations

import asyncio
import posixpath
import re
from collections.abc import Iterable

import structlog

from hermes_agent.prompt.context_files import LOCAL, MAX_RULES, RULES_DIRECTORY, RULES_SUFFIX, WALKING, prepare, printable
from hermes_agent.prompt.facts import ContextFile, Snapshot, Workspace
from hermes_agent.prompt.reading import WorkspaceFiles, read_text
from hermes_agent.tools.sandbox_port import SandboxFailure
from hermes_contracts.injection.scan import scan_name

log = structlog.get_logger()

GATHER_SECONDS = 5.0
"""Longest that the first request of a conversation waits for the sandbox."""
ANSWER_SECONDS = 1.0
"""Longest that it waits for the first sign of life: a sandbox starts before its agent: a silent one is not there."""
MAX_ENTRIES = 60
MAX_LISTED = 200
MAX_LEVELS = 16
_BRANCH = re.compile(r"ref: refs/heads/([\w./+@-]{1,100})\s*\Z", re.ASCII)


async def gather(files: WorkspaceFiles, root: str, *, max_characters: int, seconds: float = GATHER_SECONDS) -> Workspace:
    """Read snapshot and context files of the workspace at `root`; no context files when `max_characters` is 0.

    Whatever fails or takes longer than `seconds` is left out and logged: this never raises.
    """
    try:
        async with asyncio.timeout(min(ANSWER_SECONDS, seconds)), asyncio.TaskGroup() as group:
            group.create_task(_exists(files, root))
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            snapshot = group.create_task(_snapshot(files, root))
            context = group.create_task(_context(files, root, max_characters))
    except TimeoutError:
        log.warning("prompt.workspace_unread", reason="the sandbox did not answer", seconds=seconds)
        return Workspace()
    except ExceptionGroup as errors:
        # A prompt without the workspace is worth more than no turn, whatever the other side did to the reading.
        log.warning("prompt.workspace_unread", reason=type(errors.exceptions[0]).__name__)
        return Workspace()
    return Workspace(snapshot.result(), context.result())


async def _snapshot(files: WorkspaceFiles, root: str) -> Snapshot | None:
    try:
        names, total = await files.list_directory(root, limit=MAX_LISTED)
    except SandboxFailure as failure:
        log.warning("prompt.workspace_unread", reason=str(failure)[:200])
        return None
    branch = ""
    if ".git/" in names:
        match = _BRANCH.match(await read_text(files, posixpath.join(root, ".git/HEAD"), max_characters=64) or "")
        branch = match[1] if match else ""
    shown = _shown(names)
    visible = [name for name in names if name not in {".git/", ".hermes/"}]
    omitted = max(0, total - (len(names) - len(visible)) - len(shown))
    return Snapshot(branch, tuple(shown), omitted)


def _shown(names: Iterable[str]) -> list[str]:
    plain = (printable(name) for name in names if name not in {".git/", ".hermes/"})
    return [name if scan_name(name) is None else "(name withheld)" for name in plain][:MAX_ENTRIES]


async def _context(files: WorkspaceFiles, root: str, max_characters: int) -> tuple[ContextFile, ...]:
    if max_characters <= 0:
        return ()
    for directory in await _up_to_git_root(files, root):
        if file := await _first(files, root, directory, WALKING, max_characters):
            return (file,)
    return await directory_files(files, root, root, max_characters=max_characters)


async def directory_files(
    files: WorkspaceFiles, root: str, directory: str, *, max_characters: int, names: tuple[str, ...] = LOCAL
) -> tuple[ContextFile, ...]:
    """Return the first of `names` that a directory has, else its rules, all of them within `max_characters`."""
    if file := await _first(files, root, directory, names, max_characters):
        return (file,)
    return await _rules(files, root, posixpath.join(directory, RULES_DIRECTORY), max_characters)


async def _first(
    files: WorkspaceFiles, root: str, directory: str, names: tuple[str, ...], max_characters: int
) -> ContextFile | None:
    paths = [posixpath.join(directory, name) for name in names]
    async with asyncio.TaskGroup() as group:
        looks = [group.create_task(_exists(files, path)) for path in paths]
    for path in (path for path, look in zip(paths, looks, strict=True) if look.result()):
        if file := await _take(files, root, path, max_characters):
            return file
    return None


async def _rules(files: WorkspaceFiles, root: str, directory: str, max_characters: int) -> tuple[ContextFile, ...]:
    try:
        names, _ = await files.list_directory(directory, limit=MAX_LISTED)
    except SandboxFailure:
        return ()
    rules: list[ContextFile] = []
    left = max_characters
    for name in [name for name in names if name.endswith(RULES_SUFFIX)][:MAX_RULES]:
        if left <= 0:
            break
        if file := await _take(files, root, posixpath.join(directory, name), left):
            rules.append(file)
            left -= len(file.text)
    return tuple(rules)


async def _up_to_git_root(files: WorkspaceFiles, start: str) -> list[str]:
    """Return the directories from `start` up to the root of its git repository; `start` alone outside of one."""
    directories = []
    current = start
    for _ in range(MAX_LEVELS):
        directories.append(current)
        if await _exists(files, posixpath.join(current, ".git")):
            return directories
        parent = posixpath.dirname(current)
        if parent in {current, "/", ""}:
            break
        current = parent
    return [start]


async def _exists(files: WorkspaceFiles, path: str) -> bool:
    try:
        return await files.stat(path) is not None
    except SandboxFailure:
        return False


async def _take(files: WorkspaceFiles, root: str, path: str, max_characters: int) -> ContextFile | None:
    text = await read_text(files, path, max_characters=max_characters)
    if text is None:
        return None
    file = prepare(posixpath.relpath(path, root), text, max_characters=max_characters)
    if file is not None and file.blocked:
        log.warning("prompt.context_file_blocked", path=file.path, pattern=file.blocked)
    return file
