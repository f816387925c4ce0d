"""What the script of a scheduled run said: the gate, its text for the model, its text as an answer. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass

from hermes_agent.tools.sandbox_port import CommandResult
from hermes_agent.tools.text import cut_lines, decode, window

MAX_OUTPUT_BYTES = 60_000
"""Most of a script's output that is read, in UTF-8; the middle of more is left out."""


@dataclass(frozen=True)
class ScriptResult:
    """How a script ended."""

    stdout: str
    stderr: str
    status: str
    """What was wrong; empty when it ended well."""
    wakes: bool
    """Whether the agent is to look at it."""

    def for_agent(self) -> str:
        """Return what the model reads."""
        parts = [self.stdout or "(no output)"]
        if self.status:
            parts += [f"[stderr]\n{self.stderr}"] if self.stderr else []
            parts.append(f"[the script failed: {self.status}]")
        return "\n".join(parts)

    def failure(self) -> str:
        """Return what a person reads of a failed script."""
        shown = "\n".join(part for part in (self.stdout, self.stderr) if part)
        return f"The script failed: {self.status}." + (f"\n\n{shown}" if shown else "")


def read_script(result: CommandResult, seconds: float) -> ScriptResult:
    """Read how a script ended. A last line that is JSON with `wakeAgent` is the gate's and is not shown."""
    stdout, wakes = _gate(decode(result.stdout.data).strip("\n"))
    stderr = decode(result.stderr.data).strip("\n")
    if result.killed:
        status = f"it was killed after {seconds:g} s" if result.killed == "timeout" else f"it was killed ({result.killed})"
    elif result.signal:
        status = f"ended by signal {result.signal}"
    else:
        status = "" if result.exit_code == 0 else f"exit code {result.exit_code}"
    return ScriptResult(_short(stdout), _short(stderr), status, wakes or bool(status))


def _gate(text: str) -> tuple[str, bool]:
    head, _, last = text.rpartition("\n")
    try:
        found = json.loads(last)
    except ValueError:
        return text, True
    if not isinstance(found, dict) or not isinstance(found.get("wakeAgent"), bool):
        return text, True
    return head.rstrip("\n"), found["wakeAgent"]


def _short(text: str) -> str:
    return window(cut_lines(text), max_bytes=MAX_OUTPUT_BYTES)
