"""Which tools a session has."""

from __future__ import annotations

from collections.abc import Iterable

from hermes_agent.tools import clarify, files, patch, process, search, terminal
from hermes_agent.tools.base import AnyTool

ALL_TOOLS: tuple[AnyTool, ...] = (*terminal.TOOLS, *process.TOOLS, *files.TOOLS, *patch.TOOLS, *search.TOOLS, *clarify.TOOLS)


def tools_of(toolsets: Iterable[str]) -> dict[str, AnyTool]:
    """Return the tools of the named toolsets, sorted by name; unknown toolsets have none."""
    wanted = frozenset(toolsets)
    return {tool.name: tool for tool in sorted(ALL_TOOLS, key=lambda t: t.name) if tool.toolset in wanted}
