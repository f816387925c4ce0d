"""Answers to an agent's questions as words: read from a person, and said to him and to the agent. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from hermes_contracts.store_api import AnswerApprovalReply, Approval
from hermes_contracts.store_api.approvals import Decision, GrantScope

MAX_TEXT_CHARACTERS = 4_000
_ID = re.compile(r"[2-7][a-z2-7]{7}")
_SCOPES = ("once", "session", "always")
_HOW = {"once": "this once", "session": "for this session", "always": "always"}

_ASKING = {
    "Isolated": "I run commands without asking: they run in a sandbox that holds no credential.",
    "Off": "I run commands without asking.",
    "Manual": "I ask before dangerous commands.",
    "Smart": "I ask before dangerous commands, unless a model that looks first finds them harmless.",
}


@dataclass(frozen=True)
class Said:
    """What a person decided; without an id he means the only open question."""

    decision: Decision
    approval_id: str = ""
    scope: GrantScope = "once"
    text: str = ""


def read_answer(command: str, argument: str) -> Said | str:
    """Read what follows /approve, /deny or /answer; text is what was wrong with it."""
    first, _, rest = argument.partition(" ")
    named = first.lower() if _ID.fullmatch(first.lower()) else ""
    words = (rest if named else argument).strip()[:MAX_TEXT_CHARACTERS]
    if command == "approve":
        scope = words.lower() or "once"
        if scope not in _SCOPES:
            return f"`{words[:40]}` is neither a question's id nor `once`, `session` or `always`."
        return Said("approve", named, cast("GrantScope", scope))
    if command == "deny":
        return Said("deny", named, text=words)
    return Said("answer", named, text=words) if words else "Say your answer: `/answer <text>`."


def asking(mode: str) -> str:
    """Return whether a person is asked before commands, as a further sentence; empty when nobody knows the mode."""
    return f" {_ASKING[mode]}" if mode in _ASKING else ""


def followup(said: Said, approval: Approval) -> str:
    """Return what the agent reads in the person's name."""
    name = approval.approval_id
    if said.decision == "approve":
        return f"[approved {_HOW[said.scope]}, {name}]"
    if said.decision == "deny":
        what = "Do not run it." if approval.kind == "call" else "I do not want to answer this."
        return f"[denied, {name}] {what}" + (f" {said.text}" if said.text else "")
    return option_text(said.text, approval.options)


def option_text(text: str, options: Sequence[str]) -> str:
    """Return the choice that a number means; other words are the answer themselves."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 3 else 0
    return options[number - 1] if 1 <= number <= len(options) else text


def sentence(said: Said, reply: AnswerApprovalReply) -> str:
    """Return what the person reads: "approved" is said only when it is true and on disk."""
    match reply.outcome:
        case "recorded":
            return _recorded(said, reply.approval)
        case "answered_before":
            state = reply.approval.state if reply.approval is not None else "answered"
            return f"This was {state} before; nothing is changed."
        case "expired":
            return "Too late: nobody answered in time, which meant no. Nothing was run; ask me again if you still want it."
        case "several":
            return "Several questions are open. Press the button of the one you mean, or name its id."
        case "not_yours":
            return "Only the person who asked me, or an approver of this agent, may answer this."
        case "wrong_kind":
            return (
                "This question takes another answer: `/approve` or `/deny` for something to run, `/answer` for a question."
            )
        case "not_found":
            return f"There is no open question{f' `{said.approval_id}`' if said.approval_id else ''}."


def _recorded(said: Said, approval: Approval | None) -> str:
    if said.decision == "approve":
        return f"Approved, {_HOW[approval.scope if approval is not None and approval.scope else said.scope]}."
    return "Denied; it is not run." if said.decision == "deny" else "Thank you, I go on."
