"""`terminal`: run a command in the sandbox."""

from __future__ import annotations

from pydantic import Field

from hermes_agent.tools.base import BARRIER, Arguments, Tool, ToolContext
from hermes_agent.tools.sandbox_port import Captured
from hermes_agent.tools.spill import spill
from hermes_agent.tools.text import MAX_OUTPUT_BYTES, cut_lines, decode, window

DEFAULT_SECONDS = 180
MAX_SECONDS = 600
KEPT_BYTES = 2_000_000
"""Most of each output of a command that is kept for the model to page through."""
_GRACE_SECONDS = 15.0

_KILLED = {
    "timeout": "killed: it ran longer than {timeout} s. For long work use background: true.",
    "memory": "killed: the sandbox was running out of memory.",
    "processes": "killed: it started too many processes.",
    "disk": "killed: the workspace is full.",
}


class TerminalArguments(Arguments):
    """Arguments of `terminal`."""

    command: str = Field(min_length=1, max_length=100_000, description="Shell command, run by bash")
    background: bool = Field(default=False, description="Start it and return at once; watch it with process_manage")
    timeout: int = Field(
        default=DEFAULT_SECONDS, ge=1, description=f"Seconds after which it is killed, at most {MAX_SECONDS}"
    )
    workdir: str | None = Field(default=None, max_length=4096, description="Directory to run in; default is the current one")
    pty: bool = Field(default=False, description="Give it a terminal, for programs that insist on one")


async def _run(arguments: TerminalArguments, context: ToolContext) -> str:
    if arguments.background:
        process = await context.sandbox.start(arguments.command, workdir=arguments.workdir, pty=arguments.pty)
        return f"Started in the background. session_id: {process.id}"
    timeout = min(arguments.timeout, MAX_SECONDS)
    result = await context.sandbox.run(
        arguments.command,
        timeout_seconds=timeout,
        workdir=arguments.workdir,
        pty=arguments.pty,
        max_output_bytes=KEPT_BYTES,
    )
    text = _captured(result.stdout)
    if result.stderr.data:
        text = f"{text}\n[stderr]\n{_captured(result.stderr)}" if text else f"[stderr]\n{_captured(result.stderr)}"
    shown = cut_lines(text)
    if len(shown) > MAX_OUTPUT_BYTES // 4:
        shown = await spill(context, text, shown, window)
    status = _status(result.exit_code, result.signal, result.killed, timeout)
    if dropped := result.stdout.dropped_bytes + result.stderr.dropped_bytes:
        status += f", {dropped} bytes of output were not kept"
    body = shown.rstrip("\n")
    return f"{body}\n[{status}, {result.seconds:.2f} s]" if body else f"[{status}, {result.seconds:.2f} s, no output]"


def _captured(output: Captured) -> str:
    if not output.dropped_bytes:
        return decode(output.data).rstrip("\n")
    head, tail = decode(output.data[: output.gap]), decode(output.data[output.gap :])
    return f"{head}\n[... {output.dropped_bytes} bytes were not kept ...]\n{tail}".rstrip("\n")


def _status(exit_code: int | None, signal: int | None, killed: str, timeout: int) -> str:
    if killed:
        return _KILLED.get(killed, f"killed: {killed}").format(timeout=timeout)
    if signal:
        return f"ended by signal {signal}"
    return f"exit code {exit_code}"


TOOLS = (
    Tool(
        name="terminal",
        toolset="terminal",
        description=(
            "Run a shell command in the sandbox and return its output, exit code and duration. The working directory is "
            "kept between calls."
        ),
        arguments=TerminalArguments,
        run=_run,
        access=lambda _: BARRIER,
        lenient=True,
        command=lambda a: a.command,
        deadline_seconds=lambda a: min(a.timeout, MAX_SECONDS) + _GRACE_SECONDS,
    ),
)
