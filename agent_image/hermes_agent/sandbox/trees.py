"""The workspace as a whole: what is in it, and names put back that are no plain files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, ValidationError

from hermes_agent.sandbox.errors import ProtocolError, SandboxTimeout, TooLarge
from hermes_agent.sandbox.execution import ExecStream, Fd, Output
from hermes_agent.sandbox.messages import Request, TreeEntry

TREE_SECONDS = 60.0
MAX_LINE = 64 * 1024
MAX_TREE = 40_000
"""Most names that are taken in, kept or not."""
MAX_SETTLED = 500
"""Most names in one request: with the longest paths that are 4 MiB."""


class Settling(Request):
    """How one name shall be. Without `mode` or `mtime_ns` that stays as it is; `target` is for links alone."""

    path: str = Field(min_length=1, max_length=4096)
    type: Literal["directory", "file", "link", "hard"]
    mode: int | None = None
    mtime_ns: int | None = None
    target: str | None = None


def settling_pages(entries: Sequence[Settling]) -> list[list[dict[str, object]]]:
    """Return the entries as requests carry them."""
    bodies: list[dict[str, object]] = [entry.model_dump(exclude_none=True) for entry in entries]
    return [bodies[start : start + MAX_SETTLED] for start in range(0, len(bodies), MAX_SETTLED)]


async def take_tree(stream: ExecStream) -> tuple[TreeEntry, ...]:
    """Take in a whole tree, parents first.

    Raises:
        ProtocolError: a line is not an entry, or the listing failed.
        TooLarge: there are more than `MAX_TREE` names.
        SandboxTimeout: it was stopped before its end.
    """
    found: list[TreeEntry] = []
    rest = b""
    async for item in stream:
        if not isinstance(item, Output) or item.fd is Fd.STDERR:
            continue
        *lines, rest = (rest + item.data).split(b"\n")
        if len(rest) > MAX_LINE:
            raise ProtocolError("the sandbox listed a name that is too long")
        if len(found) + len(lines) > MAX_TREE:
            raise TooLarge(f"the workspace holds more than {MAX_TREE} files; remove some")
        found.extend(map(_entry, lines))
    if stream.exit is not None and stream.exit.killed:
        raise SandboxTimeout(f"listing the workspace was stopped ({stream.exit.killed})")
    if stream.exit is None or stream.exit.code != 0 or rest:
        raise ProtocolError("the sandbox did not list the workspace to its end")
    return tuple(found)


def _entry(line: bytes) -> TreeEntry:
    try:
        return TreeEntry.model_validate_json(line)
    except ValidationError as error:
        raise ProtocolError(f"the sandbox listed something that is no file: {error.error_count()} errors") from error
