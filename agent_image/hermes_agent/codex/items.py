"""What the program did, as the calls and results that a transcript keeps. Pure; every text is the program's word."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hermes_agent.model.hygiene import clean_name, clean_text
from hermes_agent.tools.text import decode, window
from hermes_contracts.conversation import ToolCallPart, ToolResultPart

MAX_ARGUMENT_BYTES = 20_000
MAX_RESULT_BYTES = 50_000
_MAX_CHANGES = 200


def call_of(item: Mapping[str, object], call_id: str) -> ToolCallPart | None:
    """Return an item as a call, in the terms of this agent's own tools; None when it is none."""
    match item.get("type"):
        case "commandExecution":
            arguments: dict[str, object] = {"command": _text(item, "command"), "workdir": _text(item, "cwd")}
            return _part(call_id, "terminal", arguments)
        case "fileChange":
            return _part(call_id, "patch", {"changes": _changes(item)})
        case "mcpToolCall":
            name = f"mcp_{_text(item, 'server')}_{_text(item, 'tool')}"
            return _part(call_id, clean_name(name)[:64], {"arguments": item.get("arguments")})
        case "webSearch":
            return _part(call_id, "web_search", {"query": _text(item, "query")})
        case _:
            return None


def result_of(item: Mapping[str, object], call: ToolCallPart, why: str = "") -> ToolResultPart:
    """Return how a call ended; `why` is what was said when it was refused."""
    status = str(item.get("status") or "")
    output = item.get("aggregatedOutput")
    lines = [decode(output.encode("utf-8", "replace")).rstrip("\n")] if isinstance(output, str) and output else []
    if why:
        lines.append(f"Not run: {why}.")
    elif item.get("type") == "commandExecution" and isinstance(item.get("exitCode"), int):
        lines.append(f"[exit code {item['exitCode']}]")
    elif status:
        lines.append(f"[{status}]")
    error = item.get("error")
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        lines.append(clean_text(error["message"]))
    text = window("\n".join(lines), max_bytes=MAX_RESULT_BYTES)
    return ToolResultPart(call_id=call.id, name=call.name, text=text, is_error=bool(why) or status in ("failed", "declined"))


def broken_off(call: ToolCallPart, why: str) -> ToolResultPart:
    """Return the result of a call whose end was not told."""
    return ToolResultPart(call_id=call.id, name=call.name, text=why, is_error=True)


def _part(call_id: str, name: str, arguments: dict[str, object]) -> ToolCallPart:
    text = json.dumps(arguments, ensure_ascii=False)
    if len(text.encode("utf-8", "replace")) > MAX_ARGUMENT_BYTES:
        cut = {key: window(str(value), max_bytes=MAX_ARGUMENT_BYTES // 2) for key, value in arguments.items()}
        text = json.dumps(cut, ensure_ascii=False)
    return ToolCallPart(id=call_id, name=name or "tool", arguments=clean_text(text))


def _text(item: Mapping[str, object], key: str) -> str:
    value = item.get(key)
    return clean_text(value) if isinstance(value, str) else ""


def _changes(item: Mapping[str, object]) -> list[dict[str, object]]:
    changes = item.get("changes")
    if not isinstance(changes, list):
        return []
    return [
        {"path": change.get("path"), "kind": change.get("kind"), "diff": change.get("diff")}
        for change in changes[:_MAX_CHANGES]
        if isinstance(change, dict)
    ]
