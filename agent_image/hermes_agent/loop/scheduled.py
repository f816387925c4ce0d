"""A scheduled run: its tools narrowed, its script before the model, its silence afterwards.

The script is journalled as tool calls are: a run that was cut short while it ran never runs it a second time.
"""

from __future__ import annotations

from dataclasses import replace

from hermes_agent.loop.limits import Limits
from hermes_agent.loop.outcome import EndReason, Outcome
from hermes_agent.loop.ports import Store, Turns
from hermes_agent.loop.script import ScriptResult, read_script
from hermes_agent.loop.state import Turn
from hermes_agent.prompt.scheduled_message import SILENT, scheduled_message
from hermes_agent.prompt.skills import read_skills
from hermes_agent.stop import Stopped, StopReason
from hermes_agent.tools.executor import Toolbox
from hermes_agent.tools.registry import toolsets_of_run
from hermes_agent.tools.sandbox_port import SandboxFailure
from hermes_contracts.conversation import Message
from hermes_contracts.envelopes import CronRun, Inbound
from hermes_contracts.store_api import APPEND, AppendRequest, JournalEntry

MAX_SCRIPT_SECONDS = 3600.0
_KEPT_BYTES = 200_000
_SCRIPT = JournalEntry(call_id="script", tool="script", state="started")
_INTERRUPTED = "(the script was interrupted before it ended, and its effect is unknown: it was not run again)"
_STOPPED = "The run was stopped."


class ScheduledRuns:
    """Runs scheduled messages with the same loop as everything else."""

    def __init__(self, store: Store, loop: Turns, toolbox: Toolbox, toolsets: tuple[str, ...], limits: Limits) -> None:
        self._store = store
        self._loop = loop
        self._toolbox = toolbox
        self._toolsets = toolsets
        self._limits = limits

    async def run(self, turn: Turn, inbound: Inbound, run: CronRun) -> Outcome:
        """Return how the run ended. Raises what the loop raises, but for a person's stop."""
        problem = _restriction_problem(run, self._toolsets)
        if problem:
            rows = () if turn.step else (scheduled_message(inbound, run),)
            return Outcome("failed", EndReason.RESTRICTION, problem, before=rows)
        try:
            with self._toolbox.narrowed(toolsets_of_run(run.toolsets, self._toolsets)):
                outcome = await self._prepared(turn, inbound, run)
                return _silenced(outcome or await self._loop.run(turn, inbound))
        except Stopped as stopped:
            if stopped.reason is not StopReason.USER:
                raise
            return Outcome("failed", EndReason.STOPPED_BY_USER, _STOPPED, silent=True)

    async def _prepared(self, turn: Turn, inbound: Inbound, run: CronRun) -> Outcome | None:
        """Write the run's message, where that could not be done before; return how the run ended, if it did."""
        if run.script:
            return await self._script_first(turn, inbound, run)
        if run.skills and turn.step == 0:
            row = await self._message(turn, inbound, run)
            await self._store.call(APPEND, AppendRequest(turn_id=turn.turn_id, step=turn.step, messages=(row,)))
            turn.written()
            turn.transcript.add(row)
        return None

    async def _message(self, turn: Turn, inbound: Inbound, run: CronRun, output: str | None = None) -> Message:
        skills = await turn.stop.race(read_skills(self._toolbox.sandbox, run.skills)) if run.skills else ""
        return scheduled_message(inbound, run, output, skills)

    async def _script_first(self, turn: Turn, inbound: Inbound, run: CronRun) -> Outcome | None:
        """Run the script; return how the run ended with it, or None when the model is to go on."""
        if turn.step > 1:
            return None
        if turn.step == 1:
            if run.no_agent:
                row = scheduled_message(inbound, run, _INTERRUPTED)
                return Outcome("failed", EndReason.SCRIPT_FAILED, f"The script failed: {_INTERRUPTED}", before=(row,))
            await self._write(turn, await self._message(turn, inbound, run, _INTERRUPTED))
            return None
        await self._write(turn)
        try:
            result = await self._run_script(turn, run.script)
        except SandboxFailure as failure:
            row = scheduled_message(inbound, run, "(it did not run)")
            reply = f"The script could not be run: {failure}"
            return Outcome("failed", EndReason.SCRIPT_FAILED, reply, before=(row,))
        outcome = _after_script(run, result)
        if outcome is not None:
            return replace(outcome, before=(scheduled_message(inbound, run, result.for_agent()),))
        await self._write(turn, await self._message(turn, inbound, run, result.for_agent()))
        return None

    async def _run_script(self, turn: Turn, script: str) -> ScriptResult:
        seconds = min(self._limits.max_turn_seconds, MAX_SCRIPT_SECONDS)
        with self._loop.pulse.excused(seconds):
            result = await turn.stop.race(
                self._toolbox.sandbox.run(
                    script, timeout_seconds=seconds, workdir=None, pty=False, max_output_bytes=_KEPT_BYTES
                )
            )
        return read_script(result, seconds)

    async def _write(self, turn: Turn, *rows: Message) -> None:
        entry = _SCRIPT.model_copy(update={"state": "finished"}) if rows else _SCRIPT
        await self._store.call(APPEND, AppendRequest(turn_id=turn.turn_id, step=turn.step, messages=rows, journal=(entry,)))
        turn.written()
        for row in rows:
            turn.transcript.add(row)


def opening(inbound: Inbound, run: CronRun) -> Message | None:
    """Return the row that begins a run's turn; None when the sandbox has something to say to it first."""
    return None if run.script or run.skills else scheduled_message(inbound, run)


def _restriction_problem(run: CronRun, toolsets: tuple[str, ...]) -> str:
    """Say why the run's tools cannot be narrowed as its job wants; it must not run with more."""
    unknown = sorted(set(run.toolsets or ()) - set(toolsets))
    return f"The run was not started: this agent has no toolset {', '.join(unknown)}." if unknown else ""


def _after_script(run: CronRun, result: ScriptResult) -> Outcome | None:
    if run.no_agent:
        if result.status:
            return Outcome("failed", EndReason.SCRIPT_FAILED, result.failure())
        if not result.stdout.strip() or not result.wakes:
            return Outcome("done", EndReason.SILENT, SILENT, silent=True)
        return Outcome("done", EndReason.STOP, result.stdout)
    if not result.wakes:
        return Outcome("done", EndReason.NOT_WOKEN, SILENT, silent=True)
    return None


def _silenced(outcome: Outcome) -> Outcome:
    """Make an answer that says nothing silent; failures are always heard."""
    if outcome.outcome == "done" and outcome.reply.strip() == SILENT:
        reason = outcome.reason if outcome.reason is EndReason.NOT_WOKEN else EndReason.SILENT
        return replace(outcome, reason=reason, silent=True)
    return outcome
