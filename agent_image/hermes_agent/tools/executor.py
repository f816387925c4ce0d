"""Runs the calls of one message: checks arguments, runs what is independent together, cuts results to size, keeps order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import structlog
from pydantic import ValidationError

from hermes_agent.approvals.gate import Gate
from hermes_agent.model.hygiene import ParsedCall, clean_text
from hermes_agent.stop import Stopped, StopReason, StopSignal
from hermes_agent.store_port import Store
from hermes_agent.tools.base import AnyTool, Arguments, ToolContext, ToolFailure
from hermes_agent.tools.offers import Offers
from hermes_agent.tools.planner import segments
from hermes_agent.tools.sandbox_port import SandboxFailure, SandboxPort
from hermes_agent.tools.spill import spill
from hermes_agent.tools.text import window
from hermes_contracts.conversation import ToolCallPart, ToolResultPart
from hermes_contracts.envelopes import Inbound

log = structlog.get_logger()

MAX_ROUND_BYTES = 250_000
"""All results of one message together, in UTF-8: what one step may carry over the bus."""
MAX_ERROR_CHARACTERS = 2_048
BATCH_SECONDS = 420.0
"""Longest run of calls that run together; one that runs alone has its own deadline only."""
_NOT_RUN = {
    StopReason.USER: "Not run: the user stopped the turn.",
    StopReason.TIME: "Not run: the turn reached its time limit.",
    StopReason.STALLED: "Not run: the turn had come to a standstill.",
    StopReason.REDIRECT: "Not run: the user gave a new goal.",
}
_CUT_SHORT = {
    StopReason.USER: "Stopped by the user while it was running; its effect may be partial.",
    StopReason.TIME: "Stopped while it was running: the turn reached its time limit. Its effect may be partial.",
    StopReason.STALLED: "Stopped while it was running: nothing had happened for too long. Its effect may be partial.",
    StopReason.REDIRECT: "Stopped while it was running: the user gave a new goal. Its effect may be partial.",
}


@dataclass(frozen=True)
class CheckedCall:
    """A call that is ready to run, or the error that goes back to the model instead (`tool` is None)."""

    part: ToolCallPart
    tool: AnyTool | None = None
    arguments: Arguments | None = None
    error: str = ""
    unknown: bool = False
    malformed: bool = False

    @property
    def deadline_seconds(self) -> float:
        """Return the longest that the call may run."""
        return self.tool.deadline_seconds(self.arguments) if self.tool is not None else 0.0

    @property
    def tidies(self) -> bool:
        """Tell whether the call only cleans up."""
        return self.tool is not None and self.tool.tidies(self.arguments)


class Toolbox:
    """The session's tools and the sandbox they work in."""

    def __init__(
        self,
        tools: dict[str, AnyTool],
        sandbox: SandboxPort,
        *,
        batch_seconds: float = BATCH_SECONDS,
        gate: Gate | None = None,
        offers: Offers | None = None,
        jobs: Store | None = None,
    ) -> None:
        self.tools = tools
        self.sandbox = sandbox
        self.gate = gate
        self.offers = offers
        self._jobs = jobs
        self._inbound: Inbound | None = None
        self._batch_seconds = batch_seconds
        self._only: frozenset[str] | None = None

    @contextmanager
    def answering(self, inbound: Inbound) -> Iterator[None]:
        """Belong to the turn of a message meanwhile."""
        self._inbound = inbound
        try:
            yield
        finally:
            self._inbound = None

    @contextmanager
    def narrowed(self, toolsets: Sequence[str] | None) -> Iterator[None]:
        """Refuse the tools of all other toolsets meanwhile; None refuses none."""
        self._only = None if toolsets is None else frozenset(toolsets)
        try:
            yield
        finally:
            self._only = None

    def allows(self, *toolsets: str) -> bool:
        """Tell whether all of these may be used now."""
        return self._only is None or self._only.issuperset(toolsets)

    def check(self, call: ParsedCall, call_id: str) -> CheckedCall:
        """Find the tool and read the arguments; a name that is nearly right is corrected."""
        name = call.name if call.name in self.tools else _closest(call.name, self.tools)
        part = ToolCallPart(id=call_id, name=name or call.name, arguments=call.arguments)
        if name is None:
            known = ", ".join(self.tools) or "none"
            return CheckedCall(part, error=f"There is no tool {call.name!r}. Available: {known}.", unknown=True)
        if call.value is None:
            return CheckedCall(
                part, error=f"Not run: {call.detail}. Send the call again with complete, valid JSON.", malformed=True
            )
        tool = self.tools[name]
        if self._only is not None and tool.toolset not in self._only:
            return CheckedCall(part, error=f"Not run: {name} is not available in this run.", unknown=True)
        try:
            return CheckedCall(part, tool, tool.arguments.model_validate(call.value))
        except ValidationError as error:
            return CheckedCall(part, error=f"Not run: {_explain(error)}")

    async def run(
        self, calls: Sequence[CheckedCall], stop: StopSignal, on_event: Callable[[str, ToolCallPart], None]
    ) -> list[ToolResultPart]:
        """Return one result a call, in call order. Raises HermesError when the store does not say whether a call may run."""
        calls = await self._admitted(calls, stop)
        results: dict[int, ToolResultPart] = {
            n: _error(call.part, call.error) for n, call in enumerate(calls) if not call.tool
        }
        runnable = [n for n, call in enumerate(calls) if call.tool]
        accesses = [call.tool.access(call.arguments) for call in calls if call.tool]
        for segment in segments(accesses):
            indices = [runnable[i] for i in segment]
            if len(indices) == 1:
                results[indices[0]] = await self._run_one(calls[indices[0]], stop, on_event)
                continue
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._run_one(calls[n], stop, on_event, self._batch_seconds)) for n in indices]
            results.update(zip(indices, (task.result() for task in tasks), strict=True))
        return await self._fit([results[n] for n in range(len(calls))])

    async def _admitted(self, calls: Sequence[CheckedCall], stop: StopSignal) -> list[CheckedCall]:
        """Return the calls, those that may not run (now) as errors; one after the other, as a person reads questions."""
        if self.gate is None:
            return list(calls)
        admitted = []
        for call in calls:
            command = call.tool.command(call.arguments) if call.tool is not None else ""
            refused = None
            if command:
                with contextlib.suppress(Stopped):
                    refused = await stop.race(self.gate.admit(call.part, command))
            admitted.append(call if refused is None else CheckedCall(call.part, error=refused))
        return admitted

    async def _run_one(
        self,
        call: CheckedCall,
        stop: StopSignal,
        on_event: Callable[[str, ToolCallPart], None],
        most_seconds: float = float("inf"),
    ) -> ToolResultPart:
        if stop.reason is not None:
            return _error(call.part, _NOT_RUN[stop.reason])
        on_event("tool_started", call.part)
        try:
            return await stop.race(self._attempt(call, most_seconds))
        except Stopped as stopped:
            return _error(call.part, _CUT_SHORT[stopped.reason])
        finally:
            on_event("tool_finished", call.part)

    async def _attempt(self, call: CheckedCall, most_seconds: float) -> ToolResultPart:
        tool, arguments = call.tool, call.arguments
        if tool is None or arguments is None:
            return _error(call.part, call.error)
        ask = self.gate.ask if self.gate is not None else None
        context = ToolContext(call.part.id, self.sandbox, ask, jobs=self._jobs, inbound=self._inbound, offers=self.offers)
        seconds = min(call.deadline_seconds, most_seconds)
        try:
            async with asyncio.timeout(seconds):
                text = clean_text(await tool.run(arguments, context))
                if len(text) > tool.max_characters:
                    text = await spill(context, text, text, window)
            return ToolResultPart(call_id=call.part.id, name=call.part.name, text=text or "(no output)")
        except (ToolFailure, SandboxFailure) as failure:
            return _error(call.part, str(failure))
        except TimeoutError:
            return _error(call.part, f"No result after {seconds:g} seconds; its effect is unknown.")
        except Exception:
            log.exception("tool.failed", tool=tool.name)
            return _error(call.part, "The tool failed inside the agent; its effect is unknown.")

    async def _fit(self, results: list[ToolResultPart]) -> list[ToolResultPart]:
        if sum(_size(result.text) for result in results) <= MAX_ROUND_BYTES:
            return results
        share = MAX_ROUND_BYTES // len(results)
        fitted = []
        for result in results:
            if _size(result.text) <= share:
                fitted.append(result)
                continue
            context = ToolContext(result.call_id, self.sandbox)

            def shorten(text: str, *, note: str = "") -> str:
                return window(text, max_bytes=share, note=note)

            fitted.append(result.model_copy(update={"text": await spill(context, result.text, result.text, shorten)}))
        return fitted


def _error(part: ToolCallPart, text: str) -> ToolResultPart:
    return ToolResultPart(call_id=part.id, name=part.name, text=clean_text(text)[:MAX_ERROR_CHARACTERS], is_error=True)


def _closest(name: str, tools: dict[str, AnyTool]) -> str | None:
    plain = name.lower().replace("-", "_").removeprefix("functions_")
    if plain in tools:
        return plain
    import difflib  # loaded with the first misspelt name: start-up does not pay for it

    close = difflib.get_close_matches(plain, tools, n=2, cutoff=0.75)
    return close[0] if len(close) == 1 else None


def _explain(error: ValidationError) -> str:
    problems = [
        f"{'.'.join(map(str, e['loc'])) or 'arguments'}: {e['msg']}"
        for e in error.errors(include_input=False, include_url=False)[:5]
    ]
    return "; ".join(problems)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
