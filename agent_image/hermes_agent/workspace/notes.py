"""What the model is told of files that are not there any more. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from hermes_agent.workspace.plan import LeftOut
from hermes_contracts.store_api import MAX_LEFT_OUT, WorkspaceState

_NAMED = 10
_LONGEST_NAME = 120


def at_start(state: WorkspaceState) -> str:
    """Return what a new agent knows to be lost; empty when nothing is."""
    if state.is_first or state.is_open:
        return ""
    if not state.number:
        return "The agent was restarted without warning before any file was saved: the workspace is empty now."
    told = []
    if not state.is_final:
        told.append(
            "The agent was restarted without warning. The files are as they were at "
            f"{moment(state.taken_at)}; what was changed after that is lost."
        )
    if state.left_out:
        told.append(f"These could not be saved and are gone: {state.left_out}")
    return " ".join(told)


def not_restored(lost: Sequence[LeftOut]) -> str:
    """Return what could not be put back."""
    return f"These files could not be restored and are gone: {listed(lost)}" if lost else ""


def not_saved(why: str, since: float) -> str:
    """Return that files are not being saved. `since` is the time of the last snapshot, 0 for none."""
    known = f"Only what was there at {moment(since)} is safe" if since else "Nothing is safe"
    return f"The files cannot be saved: {why}. {known}; the rest will be lost when this agent sleeps."


def listed(left_out: Sequence[LeftOut]) -> str:
    """Return names and reasons in a bounded text that nobody can take for anything else: names are a stranger's words."""
    named = [f"{_quoted(item.path)} ({item.why})" for item in left_out[:_NAMED]]
    more = [f"{len(left_out) - _NAMED} more"] if len(left_out) > _NAMED else []
    return ", ".join([*named, *more])[:MAX_LEFT_OUT]


def moment(seconds: float) -> str:
    """Return a time in UTC, to the second, never later than it was."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _quoted(path: str) -> str:
    shown = path if len(path) <= _LONGEST_NAME else f"{path[:_LONGEST_NAME]}…"
    return json.dumps(shown, ensure_ascii=False)
