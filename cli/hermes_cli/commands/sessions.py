"""`hermes sessions`."""

from __future__ import annotations

import sys
import time

from hermes_cli.api.sessions import delete_session, find_session, get_session, list_sessions, tell, transcript
from hermes_cli.api.shapes import Entry, Part, Session
from hermes_cli.connection.opening import connected
from hermes_cli.errors import ExitCode, usage
from hermes_cli.options import Options
from hermes_cli.show.console import output, print_fields, print_json, print_table, write_line
from hermes_cli.show.text import ago, dollars, one_line, printable

_STOP_SECONDS = 20.0
_SHOWN_RESULT_CHARACTERS = 2000


async def list_them(options: Options, *, most: int, as_json: bool) -> ExitCode:
    """List sessions, newest activity first."""
    async with connected(options) as connection:
        found = [session async for session in list_sessions(connection.api, profile=connection.profile, most=most)]
    if as_json:
        print_json(found)
        return ExitCode.OK
    print_table(
        ("id", "profile", "channel", "turns", "cost", "active", "title"),
        [_row(session) for session in found],
        empty="No sessions yet. Begin one with: hermes chat",
    )
    return ExitCode.OK


def _row(session: Session) -> tuple[str, ...]:
    state = "now" if session.running_turns else f"{ago(time.time() - session.last_activity)} ago"
    cost = dollars(session.usage.cost_usd, session.usage.unpriced_calls)
    title = one_line(session.title or session.client_id)
    return session.id, session.profile, session.channel, str(session.turns), cost, state, title


async def show(options: Options, word: str, *, as_json: bool) -> ExitCode:
    """Show one session."""
    async with connected(options) as connection:
        session = await find_session(connection.api, word)
    if as_json:
        print_json(session)
        return ExitCode.OK
    usage_of = session.usage
    print_fields(
        [
            ("id", session.id),
            ("title", session.title),
            ("client id", session.client_id),
            ("Profile", f"{session.namespace}/{session.profile}"),
            ("channel", session.channel),
            ("created", _when(session.created_at)),
            ("last activity", _when(session.last_activity)),
            ("turns", f"{session.turns}, {session.running_turns} running"),
            (
                "tokens",
                f"{usage_of.input_tokens:,} in ({usage_of.cached_input_tokens:,} cached), {usage_of.output_tokens:,} out",
            ),
            ("cost", dollars(usage_of.cost_usd, usage_of.unpriced_calls)),
        ]
    )
    return ExitCode.OK


def _when(seconds: float) -> str:
    if not seconds:
        return "never"
    return f"{time.strftime('%Y-%m-%d %H:%M:%S %Z', time.localtime(seconds))} ({ago(time.time() - seconds)} ago)"


async def print_transcript(options: Options, word: str, *, as_json: bool) -> ExitCode:
    """Print what was said and done in a session. JSON is one message a line."""
    async with connected(options) as connection:
        session = await find_session(connection.api, word)
        console = output()
        async for entry in transcript(connection.api, session.id):
            if as_json:
                write_line(entry.model_dump_json())
                continue
            for style, line in render_entry(entry):
                console.print(printable(line), style=style if console.is_terminal else "", markup=False, soft_wrap=True)
    return ExitCode.OK


def render_entry(entry: Entry) -> list[tuple[str, str]]:
    """Return a message as styled lines. Pure."""
    lines = [line for part in entry.parts if (line := _render_part(entry.role, part)) is not None]
    return [("dim", f"(taken back) {text}") for _, text in lines] if entry.undone else lines


def _render_part(role: str, part: Part) -> tuple[str, str] | None:
    match part.type:
        case "text":
            return ("bold", f"› {part.text}") if role == "user" else ("", part.text)
        case "image":
            return "dim", f"[{part.media_type}, {part.size:,} bytes]"
        case "reasoning":
            return ("dim italic", part.text) if part.text else None
        case "tool_call":
            return "cyan", f"▸ {part.name} {part.arguments}"
        case "tool_result":
            text = part.text
            cut = f"{text[:_SHOWN_RESULT_CHARACTERS]}\n[{len(text):,} characters in all; --json has them]"
            shown = cut if len(text) > _SHOWN_RESULT_CHARACTERS else text
            return "red" if part.is_error else "dim", shown
    return None


async def stop(options: Options, word: str) -> ExitCode:
    """Stop the running turn of a session."""
    async with connected(options) as connection:
        session = await find_session(connection.api, word)
        session = await get_session(connection.api, session.id)
        # Without a running turn an agent may just be waking for one: it is told, but not waited for.
        wait = _STOP_SECONDS if session.running_turns else 1.0
        result = await tell(connection.api, session.id, "stop", None, wait_seconds=wait)
    output().print(result or "The agent has been told to stop.", markup=False)
    return ExitCode.OK


async def delete(options: Options, word: str, *, sure: bool) -> ExitCode:
    """Delete a session with all it holds."""
    async with connected(options) as connection:
        session = await find_session(connection.api, word)
        if not sure:
            _ask_whether(session)
        await delete_session(connection.api, session.id)
    output().print(f"Session {session.id} is deleted.", markup=False)
    return ExitCode.OK


def _ask_whether(session: Session) -> None:
    if not sys.stdin.isatty():
        raise usage("deleting asks first, and nobody is there to answer", "give --yes")
    title = one_line(session.title or session.client_id)
    sys.stderr.write(f"Delete session {session.id} ({title}, {session.turns} turns) with its transcript and files? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise usage("nothing was deleted")
