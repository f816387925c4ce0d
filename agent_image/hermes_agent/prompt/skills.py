"""Skills that a scheduled run reads first, from a workspace that may be hostile."""

from __future__ import annotations

import asyncio

import structlog

from hermes_agent.model.hygiene import clean_text
from hermes_agent.prompt.reading import WorkspaceFiles, read_text
from hermes_contracts.injection.patterns import Scope
from hermes_contracts.injection.scan import scan

log = structlog.get_logger()

MAX_SKILL_CHARACTERS = 20_000
"""Longest part of one skill that is read: all of them together fit one step's write."""
READ_SECONDS = 10.0
"""Longest wait for a sandbox, which need not answer."""
_CUT = "\n[the rest of this skill was cut: it is too long]"


async def read_skills(files: WorkspaceFiles, names: tuple[str, ...], *, seconds: float = READ_SECONDS) -> str:
    """Return what a run is told of its skills, in their order, and which ones it has to do without; never raises."""
    blocks, missing = [], []
    deadline = asyncio.get_running_loop().time() + seconds
    for name in names:
        try:
            async with asyncio.timeout_at(deadline):
                text = await read_text(files, f"skills/{name}/SKILL.md", max_characters=MAX_SKILL_CHARACTERS)
        except TimeoutError:
            missing.append(f"{name} (the sandbox did not answer)")
            continue
        if text is None:
            missing.append(f"{name} (not found)")
        elif (pattern := scan(text, Scope.CONTEXT)) is not None:
            log.warning("prompt.skill_blocked", skill=name, pattern=pattern)
            missing.append(f"{name} (withheld: it looks like an attempt to take over the agent, {pattern})")
        else:
            blocks.append(skill_block(name, text))
    if missing:
        blocks.append(f"[skills of this job that could not be read: {', '.join(missing)}. Say so first in your report.]")
    return "\n\n".join(blocks)


def skill_block(name: str, text: str) -> str:
    """Return a skill as a message carries it. Pure."""
    plain = clean_text(text).strip()
    if len(plain) > MAX_SKILL_CHARACTERS:
        plain = plain[:MAX_SKILL_CHARACTERS] + _CUT
    plain = plain.replace("</skill>", "<\\/skill>")
    return f'<skill name="{name}">\n{plain}\n</skill>'
