"""`hermes sessions files`: what an agent has sent, listed and saved."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from hermes_cli.api.sessions import find_session, list_files
from hermes_cli.api.shapes import SentFile
from hermes_cli.connection.opening import connected
from hermes_cli.errors import ExitCode, refused, usage
from hermes_cli.options import Options
from hermes_cli.show.console import output, print_json, print_table
from hermes_cli.show.text import ago, one_line


async def list_them(options: Options, word: str, *, as_json: bool) -> ExitCode:
    """List a session's files, newest first."""
    async with connected(options) as connection:
        session = await find_session(connection.api, word)
        found = await list_files(connection.api, session.id)
    if as_json:
        print_json(found)
        return ExitCode.OK
    print_table(("id", "name", "type", "bytes", "sent", "caption"), [_row(file) for file in found], empty="No files.")
    return ExitCode.OK


def _row(file: SentFile) -> tuple[str, ...]:
    sent = f"{ago(time.time() - file.created_at)} ago"
    return file.id, one_line(file.name), file.media_type, f"{file.size:,}", sent, one_line(file.caption)


async def save(options: Options, word: str, wanted: str, to: Path | None) -> ExitCode:
    """Save the newest file of this name, or the one with this id; `-` is standard output. Never writes over a file."""
    async with connected(options) as connection:
        session = await find_session(connection.api, word)
        files = await list_files(connection.api, session.id)
        file = next((one for one in files if wanted in (one.id, one.name)), None)
        if file is None:
            raise refused(f"the session has no file {wanted!r}", f"see hermes sessions files {session.id}")
        data = await connection.api.fetch(f"/api/sessions/{session.id}/files/{file.id}")
    if to == Path("-"):
        sys.stdout.buffer.write(data)
        return ExitCode.OK
    path = to or Path(local_name(file.name))
    try:
        with path.open("xb") as target:
            target.write(data)
    except OSError as error:
        raise usage(f"cannot write {path}", f"{error.strerror}; give --output") from error
    output().print(f"Saved {path} ({len(data):,} bytes).", markup=False)
    return ExitCode.OK


def local_name(name: str) -> str:
    """Return what a file is called here: a name and never a path, and not a hidden one. Pure."""
    plain = one_line(name.replace("\\", "/").rpartition("/")[2], 120).lstrip(".")
    return plain or "file"
