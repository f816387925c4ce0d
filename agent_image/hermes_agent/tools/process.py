"""`process_manage`: background processes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hermes_agent.tools.base import BARRIER, Arguments, Tool, ToolContext, ToolFailure
from hermes_agent.tools.sandbox_port import ProcessInfo
from hermes_agent.tools.text import cut_lines, decode, window

MAX_WAIT_SECONDS = 600
MAX_READ_BYTES = 200_000
POLL_BYTES = 8_000


class ProcessArguments(Arguments):
    """Arguments of `process_manage`."""

    action: Literal["list", "poll", "log", "wait", "kill", "write", "submit", "close"] = Field(
        description="list all; poll: state and newest output; log: output from an offset; wait for the end; kill; write to "
        "its input; submit: write and a newline; close its input"
    )
    session_id: str | None = Field(default=None, max_length=64, description="Process, as terminal named it; not for list")
    data: str = Field(default="", max_length=200_000, description="Text for write and submit")
    timeout: int = Field(default=60, ge=0, description=f"Seconds for wait, at most {MAX_WAIT_SECONDS}")
    offset: int = Field(default=0, ge=0, description="Byte to start at, for log")
    limit: int = Field(default=50_000, ge=1, description=f"Bytes to read, for log, at most {MAX_READ_BYTES}")


async def _run(arguments: ProcessArguments, context: ToolContext) -> str:
    sandbox = context.sandbox
    if arguments.action == "list":
        processes = await sandbox.processes()
        return "\n".join(_line(process) for process in processes) or "No background processes."
    if not arguments.session_id:
        raise ToolFailure(f"session_id: needed for action {arguments.action}; list shows them")
    process_id = arguments.session_id
    match arguments.action:
        case "poll":
            return await _output(context, process_id, -POLL_BYTES, POLL_BYTES)
        case "log":
            return await _output(context, process_id, arguments.offset, min(arguments.limit, MAX_READ_BYTES))
        case "wait":
            await sandbox.process_wait(process_id, min(arguments.timeout, MAX_WAIT_SECONDS))
            return await _output(context, process_id, -POLL_BYTES, POLL_BYTES)
        case "kill":
            return _line(await sandbox.process_kill(process_id))
        case "write" | "submit":
            data = arguments.data + ("\n" if arguments.action == "submit" else "")
            await sandbox.process_write(process_id, data.encode("utf-8", "replace"))
            return f"Wrote {len(data)} characters."
        case "close":
            await sandbox.process_close(process_id)
            return "Its input is closed."


async def _output(context: ToolContext, process_id: str, offset: int, limit: int) -> str:
    output = await context.sandbox.process_output(process_id, offset=offset, limit=limit)
    lost = f"[{output.lost_bytes} bytes before this are not kept]\n" if output.lost_bytes and offset >= 0 else ""
    body = window(cut_lines(decode(output.data))).rstrip("\n") or "(no output)"
    return f"{_line(output.info)}\n{lost}{body}\n[next offset: {output.next_offset}]"


def _line(process: ProcessInfo) -> str:
    state = (
        "running" if process.running else (f"killed: {process.killed}" if process.killed else f"exit {process.exit_code}")
    )
    return f"{process.id}  {state}  {process.seconds:.1f} s  {process.command[:200]}"


TOOLS = (
    Tool(
        name="process_manage",
        toolset="terminal",
        description="Look after processes that terminal started with background: true.",
        arguments=ProcessArguments,
        run=_run,
        access=lambda _: BARRIER,
        lenient=True,
        command=lambda a: a.data if a.action in {"write", "submit"} else "",
        tidies=lambda a: a.action in {"kill", "close"},
        deadline_seconds=lambda a: min(a.timeout, MAX_WAIT_SECONDS) + 30.0,
    ),
)
