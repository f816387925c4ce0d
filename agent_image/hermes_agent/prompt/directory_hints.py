"""Instructions of directories below the workspace's top: they come with the result of the first file call that goes there.

The prompt never changes for them. What was shown is read off the transcript itself, so a restart repeats nothing, and a
compaction that lost a hint lets it come again.
"""

from __future__ import annotations

import asyncio
import json
import posixpath
import re
from collections.abc import Iterable, Sequence
from typing import Protocol
from weakref import WeakKeyDictionary

import structlog

from hermes_agent.prompt.context_files import LOCAL, WALKING
from hermes_agent.prompt.facts import ContextFile
from hermes_agent.prompt.gather import directory_files
from hermes_agent.prompt.reading import WorkspaceFiles
from hermes_agent.tools.executor import CheckedCall
from hermes_agent.tools.patch import PatchArguments
from hermes_contracts.conversation import ToolResultPart

log = structlog.get_logger()

MAX_HINT_CHARACTERS = 32_000
"""All hints of one round together."""
LOOK_SECONDS = 0.5
"""Longest that a round's results, and with them a person's stop, wait for this."""
MAX_ANCESTORS = 5
_NAMES = (*WALKING, *LOCAL)
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.{1,4096})$", re.MULTILINE)


class Rows(Protocol):
    """A conversation as it is sent: `loop.transcript.Transcript`."""

    messages: list[bytes]
    compactions: int


class DirectoryHints:
    """Adds directories' instructions to results, each once a conversation. One object serves all of a session's."""

    def __init__(
        self,
        files: WorkspaceFiles,
        root: str,
        *,
        max_characters: int = MAX_HINT_CHARACTERS,
        seconds: float = LOOK_SECONDS,
    ) -> None:
        self._files = files
        self._root = root
        self._max_characters = max_characters
        self._seconds = seconds
        self._looked: WeakKeyDictionary[Rows, tuple[int, set[str]]] = WeakKeyDictionary()

    async def add(self, rows: Rows, calls: Sequence[CheckedCall], results: Sequence[ToolResultPart]) -> list[ToolResultPart]:
        """Return the results, with the instructions of directories that these calls were the first to touch.

        Never raises but for cancellation: a sandbox that fails or is slow gives the results as they are.
        """
        looked = self._looked_in(rows)
        added = list(results)
        left = self._max_characters
        try:
            async with asyncio.timeout(self._seconds):
                for place, (call, result) in enumerate(zip(calls, results, strict=True)):
                    for directory in [] if result.is_error else self._new_directories(call, looked):
                        if left <= 0:
                            return added
                        hint = await self._hint(rows, directory, left)
                        looked.add(directory)
                        if hint:
                            left -= len(hint)
                            text = f"{added[place].text}\n\n{hint}"
                            added[place] = added[place].model_copy(update={"text": text})
        except TimeoutError:
            log.warning("prompt.directory_unread", reason="the sandbox did not answer", seconds=self._seconds)
        return added

    def _looked_in(self, rows: Rows) -> set[str]:
        compactions, looked = self._looked.get(rows, (rows.compactions, set()))
        if compactions != rows.compactions:
            looked = set()
        self._looked[rows] = (rows.compactions, looked)
        return looked

    def _new_directories(self, call: CheckedCall, looked: set[str]) -> list[str]:
        found: list[str] = []
        for path, is_directory in touched(call):
            inside = within(path, self._root)
            if inside is None:
                continue
            directory = inside if is_directory else posixpath.dirname(inside)
            if posixpath.basename(inside) in _NAMES:
                looked.add(directory)
            found += [d for d in ancestors(directory) if d not in looked and d not in found]
        return found

    async def _hint(self, rows: Rows, directory: str, max_characters: int) -> str:
        files = await directory_files(
            self._files, self._root, posixpath.join(self._root, directory), max_characters=max_characters, names=_NAMES
        )
        return "\n\n".join(_render(directory, file) for file in files if not _shown(rows, _mark(file)))


def touched(call: CheckedCall) -> Iterable[tuple[str, bool]]:
    """Return the paths that a file tool's call names, each with whether it is a directory to search."""
    if call.tool is None or call.arguments is None or call.tool.toolset != "file":
        return []
    if isinstance(call.arguments, PatchArguments) and call.arguments.patch:
        return [(match.strip(), False) for match in _PATCHED.findall(call.arguments.patch)]
    access = call.tool.access(call.arguments)
    return [(path, call.tool.name == "search_files") for path in sorted(access.reads | access.writes)]


def within(path: str, root: str) -> str | None:
    """Return a path relative to `root`, or None when it leads out of it."""
    if not path.isprintable():
        return None
    plain = posixpath.relpath(posixpath.normpath(posixpath.join(root, path)), root)
    return None if plain == ".." or plain.startswith("../") else plain


def ancestors(directory: str) -> list[str]:
    """Return a directory and those above it, the outermost first; the workspace's top is the prompt's, not ours."""
    names = [name for name in directory.split("/") if name not in {"", "."}]
    return ["/".join(names[: n + 1]) for n in range(len(names))][-MAX_ANCESTORS:]


def _mark(file: ContextFile) -> str:
    return f"[Project instructions from {file.path}]"


def _render(directory: str, file: ContextFile) -> str:
    where = posixpath.basename(directory)
    return f"{_mark(file)}\n{file.text}\n[End of the instructions; they hold for work in {where}/ and below]"


def _shown(rows: Rows, mark: str) -> bool:
    data = json.dumps(mark, ensure_ascii=False)[1:-1].encode("utf-8", "replace")
    return any(data in row for row in rows.messages)
