"""Over-long output goes to a file in the workspace, where the model can page through it."""

from __future__ import annotations

from collections.abc import Callable

from hermes_agent.tools.base import ToolContext
from hermes_agent.tools.sandbox_port import SandboxFailure

SPILL_DIRECTORY = ".hermes/spill"
MAX_SPILL_CHARACTERS = 5_000_000


async def spill(context: ToolContext, text: str, shown: str, window: Callable[..., str]) -> str:
    """Return `shown` cut to size; when that cuts anything, write `text` to a file and name it in the gap."""
    if window(shown) == text:
        return text
    path = f"{SPILL_DIRECTORY}/{context.call_id}.txt"
    try:
        await context.sandbox.write_file(path, text[:MAX_SPILL_CHARACTERS].encode("utf-8", "replace"))
    except SandboxFailure as failure:
        return window(shown, note=f"the rest could not be saved: {failure}")
    cut = window(shown, note=f"the text is in {path}")
    return cut if cut != shown else f"{shown}\n[Long lines were cut; the text is in {path}]"
