"""`patch`: change files, by replacing a text in one or by a patch over many; all of it or nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from hermes_agent.tools import v4a
from hermes_agent.tools.base import BARRIER, Access, Arguments, Tool, ToolContext, ToolFailure
from hermes_agent.tools.files import path_key, require_file, writing
from hermes_agent.tools.fuzzy import NoMatch, replace
from hermes_agent.tools.sandbox_port import SandboxFailure, SandboxPort

MAX_FILE_BYTES = 4_000_000
MAX_DIFF_CHARACTERS = 8_000
_FILE_LINE = re.compile(r"^\*\*\* (?:Add File|Update File|Delete File|Move to): (.+)$", re.MULTILINE)


class PatchArguments(Arguments):
    """Arguments of `patch`."""

    mode: Literal["replace", "patch"] = Field(
        default="replace", description="replace: old_string by new_string in one file; patch: a V4A patch over several"
    )
    path: str | None = Field(default=None, max_length=4096, description="File, for mode replace")
    old_string: str | None = Field(
        default=None, max_length=250_000, description="Text to replace; must be unique in the file"
    )
    new_string: str | None = Field(default=None, max_length=250_000, description="Text to put there; empty deletes")
    replace_all: bool = Field(default=False, description="Replace every occurrence")
    patch: str | None = Field(
        default=None,
        max_length=250_000,
        description="For mode patch: *** Begin Patch, then *** Update File: path (hunks of context, -old, +new lines, each "
        "hunk after an optional @@ line), *** Add File: path (+lines), *** Delete File: path, then *** End Patch",
    )


@dataclass(frozen=True)
class _Edit:
    """What to write: `before` or `after` None means that there is no file."""

    path: str
    before: bytes | None
    after: bytes | None


async def _run(arguments: PatchArguments, context: ToolContext) -> str:
    edits, note = await (_plan_patch if arguments.mode == "patch" else _plan_replace)(arguments, context.sandbox)
    await _apply(edits, context.sandbox)
    return "\n".join([note, *(_diff(edit) for edit in edits)])[: MAX_DIFF_CHARACTERS * 2]


async def _plan_replace(arguments: PatchArguments, sandbox: SandboxPort) -> tuple[list[_Edit], str]:
    if not arguments.path or arguments.old_string is None or arguments.new_string is None:
        raise ToolFailure("mode replace needs path, old_string and new_string")
    before = await _read(sandbox, arguments.path)
    text, windows = _text(arguments.path, before)
    try:
        changed, count, how = replace(
            text,
            arguments.old_string.replace("\r\n", "\n"),
            arguments.new_string.replace("\r\n", "\n"),
            replace_all=arguments.replace_all,
        )
    except NoMatch as error:
        raise ToolFailure(f"{arguments.path}: {error}") from error
    loosely = "" if how == "exact" else f" (matched with {how}: check the result)"
    places = "1 place" if count == 1 else f"{count} places"
    return [_Edit(arguments.path, before, _bytes(changed, windows))], f"Changed {places} in {arguments.path}{loosely}."


async def _plan_patch(arguments: PatchArguments, sandbox: SandboxPort) -> tuple[list[_Edit], str]:
    if not arguments.patch:
        raise ToolFailure("mode patch needs patch")
    try:
        changes = v4a.parse(arguments.patch)
        edits = [edit for change in changes for edit in await _plan_change(change, sandbox)]
    except v4a.PatchError as error:
        raise ToolFailure(f"nothing was changed: {error}") from error
    return edits, "\n".join(f"{change.kind}: {change.path}" for change in changes)


async def _plan_change(change: v4a.Change, sandbox: SandboxPort) -> list[_Edit]:
    if change.kind == "add":
        if await sandbox.stat(change.path) is not None:
            raise v4a.PatchError(f"{change.path}: exists already; use *** Update File")
        content = "\n".join(change.content) + ("\n" if change.content else "")
        return [_Edit(change.path, None, content.encode("utf-8", "replace"))]
    before = await _read(sandbox, change.path)
    if change.kind == "delete":
        return [_Edit(change.path, before, None)]
    text, windows = _text(change.path, before)
    after = _bytes(v4a.apply_update(change, text), windows)
    if change.move_to is None:
        return [_Edit(change.path, before, after)]
    if await sandbox.stat(change.move_to) is not None:
        raise v4a.PatchError(f"{change.move_to}: exists already")
    return [_Edit(change.move_to, None, after), _Edit(change.path, before, None)]


async def _read(sandbox: SandboxPort, path: str) -> bytes:
    info = await require_file(sandbox, path)
    if info.size > MAX_FILE_BYTES:
        raise ToolFailure(f"{path}: too large to patch ({info.size} bytes, limit {MAX_FILE_BYTES}); use terminal")
    data = b""
    while len(data) < info.size:
        chunk = await sandbox.read_file(path, offset=len(data), limit=min(256 * 1024, info.size - len(data)))
        if not chunk:
            break
        data += chunk
    return data


def _text(path: str, data: bytes) -> tuple[str, bool]:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ToolFailure(f"{path}: is not UTF-8 text; use terminal") from error
    windows = "\r\n" in text
    return (text.replace("\r\n", "\n") if windows else text), windows


def _bytes(text: str, windows: bool) -> bytes:
    return (text.replace("\n", "\r\n") if windows else text).encode("utf-8", "replace")


async def _apply(edits: list[_Edit], sandbox: SandboxPort) -> None:
    done: list[_Edit] = []
    try:
        for edit in edits:
            done.append(edit)
            await _put(sandbox, edit.path, edit.after)
    except SandboxFailure as failure:
        for edit in reversed(done):
            try:
                await _put(sandbox, edit.path, edit.before)
            except SandboxFailure:
                raise ToolFailure(f"{failure}; {edit.path} could not be put back: check these files") from failure
        raise ToolFailure(f"nothing was changed: {failure}") from failure


async def _put(sandbox: SandboxPort, path: str, data: bytes | None) -> None:
    if data is not None:
        await sandbox.write_file(path, data)
    elif await sandbox.stat(path) is not None:
        await sandbox.remove_file(path)


def _diff(edit: _Edit) -> str:
    if edit.before is None or edit.after is None:
        return ""
    import difflib  # loaded with the first change: start-up does not pay for it

    before, after = (data.decode("utf-8", "replace").splitlines() for data in (edit.before, edit.after))
    lines = difflib.unified_diff(before, after, edit.path, edit.path, n=2, lineterm="")
    text = "\n".join(lines)
    return text if len(text) <= MAX_DIFF_CHARACTERS else f"{text[:MAX_DIFF_CHARACTERS]}\n[... diff cut ...]"


def _access(arguments: PatchArguments) -> Access:
    if arguments.mode == "replace" and arguments.path:
        return Access(writes=frozenset({path_key(arguments.path)}))
    return BARRIER


def _command(arguments: PatchArguments) -> str:
    """Name the files that would be written."""
    paths = [arguments.path or "."] if arguments.mode == "replace" else _FILE_LINE.findall(arguments.patch or "")
    return writing(*(path.strip() for path in paths))


TOOLS = (
    Tool(
        name="patch",
        toolset="file",
        description="Change files: replace a unique text in one, or apply a patch to several. All or nothing.",
        arguments=PatchArguments,
        run=_run,
        access=_access,
        command=_command,
    ),
)
