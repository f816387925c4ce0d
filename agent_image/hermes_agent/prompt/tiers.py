"""The system prompt from facts, in tiers from what changes least to what changes most. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from hermes_agent.model.hygiene import clean_text
from hermes_agent.prompt import wording
from hermes_agent.prompt.facts import ContextFile, Facts, Snapshot
from hermes_agent.prompt.first_message import NEW_GOAL, STEERED

Tier = Literal["stable", "context", "volatile"]

_INSTRUCTIONS = "# Instructions from the caller\n<caller_instructions characters="
_OPENING = re.compile(r"\n\n# Instructions from the caller\n<caller_instructions characters=(\d{1,6})>\n")
_TOOLSETS = re.compile(r"\. Toolsets: ([a-z0-9_, -]{1,600})\. Channel: (?:cron|webhook)\.$")
_LAST_LINE = re.compile(r"\. Channel: ([a-z0-9_-]{1,32})\.$")
_CHANNEL = re.compile(r"[a-z0-9_-]{1,32}")


@dataclass(frozen=True)
class Section:
    """One block of the prompt."""

    tier: Tier
    name: str
    text: str


def build(facts: Facts) -> str:
    """Return the prompt."""
    return "\n\n".join(section.text for section in sections(facts))


def sections(facts: Facts) -> list[Section]:
    """Return the prompt's blocks in order; blocks without text are left out."""
    blocks = [
        Section("stable", "identity", facts.persona.strip() or wording.IDENTITY),
        Section("stable", "work", _work(facts)),
        Section("stable", "terminal", wording.TERMINAL if "terminal" in facts.tools else ""),
        Section("stable", "files", _in(facts, wording.FILES) if "read_file" in facts.tools else ""),
        Section("stable", "model family", family_guidance(facts.model) if facts.tools else ""),
        Section("stable", "environment", _in(facts, wording.ENVIRONMENT) if facts.tools else ""),
        Section("stable", "platform", _platform(facts)),
        Section("context", "workspace", _snapshot(facts.workspace.snapshot)),
        Section("context", "instructions", _instructions(facts.instructions)),
        *(Section("context", file.path, _file(file)) for file in facts.workspace.files),
        Section("volatile", "date", _date(facts)),
    ]
    return [block for block in blocks if block.text]


def family_guidance(model: str) -> str:
    """Return what models of this name's family need to be told, or nothing."""
    words = re.split(r"[/:._\-\s]+", model.lower())
    for names, text in wording.FAMILIES:
        if any(word.startswith(names) for word in words):
            return text
    return ""


def instructions_in(prompt: str) -> str:
    """Return the caller's instructions that a built prompt carries.

    Their length stands before them, so they may hold anything; `_defused` keeps everybody else from writing the opening.
    """
    match = _OPENING.search(prompt)
    return prompt[match.end() : match.end() + int(match[1])] if match else ""


def channel_in(prompt: str) -> str:
    """Return the channel that a built prompt names in its last line, or nothing."""
    match = _LAST_LINE.search(prompt)
    return match[1] if match else ""


def toolsets_in(prompt: str) -> tuple[str, ...] | None:
    """Return what the built prompt of a scheduled run or a webhook narrows its tools to, None when it does not."""
    match = _TOOLSETS.search(prompt)
    return tuple(name for name in match[1].split(", ") if name != "none") if match else None


def _work(facts: Facts) -> str:
    lines = [wording.WORK]
    if facts.tools:
        lines.append(wording.PARALLEL)
    if facts.tools and facts.channel not in wording.UNATTENDED:
        lines.append(wording.STEERING.format(steered=STEERED, new_goal=NEW_GOAL))
    return "\n".join(lines)


def _in(facts: Facts, text: str) -> str:
    return text.replace("{workspace}", facts.workspace_path)


def _platform(facts: Facts) -> str:
    lines = [wording.PLATFORMS.get(facts.channel, ""), clean_text(facts.hint).strip()]
    text = "\n".join(line for line in lines if line)
    return f"# Where you are\n{text}" if text else ""


def _snapshot(snapshot: Snapshot | None) -> str:
    if snapshot is None:
        return ""
    names = "  ".join(snapshot.entries) or "(empty)"
    if snapshot.omitted:
        names += f"  (and {snapshot.omitted} more)"
    branch = f" Git branch: {_defused(snapshot.branch)}." if snapshot.branch else ""
    return f"# Workspace when this conversation began\n{_defused(names)}{branch and chr(10) + branch.strip()}"


def _instructions(text: str) -> str:
    text = clean_text(text).strip()
    return f"{_INSTRUCTIONS}{len(text)}>\n{text}\n</caller_instructions>" if text else ""


def _file(file: ContextFile) -> str:
    return f"# Project instructions ({_defused(file.path)})\n{_defused(file.text).strip()}"


def _defused(text: str) -> str:
    """Keep text of the workspace from looking like the caller's instructions to `instructions_in`."""
    return text.replace("<caller_instructions", "<caller-instructions")


def _date(facts: Facts) -> str:
    now = " (`date` in the terminal tells the time)" if "terminal" in facts.tools else ""
    channel = f" Channel: {facts.channel}." if _CHANNEL.fullmatch(facts.channel) else ""
    only = "" if facts.toolsets is None else f" Toolsets: {', '.join(facts.toolsets) or 'none'}."
    day = f"{facts.today:%A, %Y-%m-%d}"
    return f"This conversation began on {day} UTC{now}. Profile: {facts.profile}. Model: {facts.model}.{only}{channel}"
