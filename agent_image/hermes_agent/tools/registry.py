"""Which tools a session has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hermes_agent.tools import clarify, cronjob, files, patch, process, search, send_file, terminal
from hermes_agent.tools.base import AnyTool

ALL_TOOLS: tuple[AnyTool, ...] = (
    *terminal.TOOLS,
    *process.TOOLS,
    *files.TOOLS,
    *patch.TOOLS,
    *search.TOOLS,
    *clarify.TOOLS,
    *cronjob.TOOLS,
    *send_file.TOOLS,
)


NOT_IN_RUNS = frozenset({cronjob.TOOLSET})
"""Toolsets that scheduled runs never have: a run that makes runs would go on for ever."""


def toolsets_of_run(wanted: Sequence[str] | None, profile: Sequence[str]) -> Sequence[str] | None:
    """Return the toolsets of a scheduled run that wants these; None is all that its Profile has."""
    if wanted is None and NOT_IN_RUNS.isdisjoint(profile):
        return None
    return [name for name in (profile if wanted is None else wanted) if name not in NOT_IN_RUNS]


def tools_of(toolsets: Iterable[str]) -> dict[str, AnyTool]:
    """Return the tools of the named toolsets, sorted by name; unknown toolsets have none."""
    wanted = frozenset(toolsets)
    return {tool.name: tool for tool in sorted(ALL_TOOLS, key=lambda t: t.name) if tool.toolset in wanted}
