"""What was done, taken from the calls themselves: no model writes it, so nothing that was done is done again. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from hermes_agent.compression.redact import redact
from hermes_agent.compression.shrink import shrink_arguments
from hermes_contracts.conversation import Message, Role, ToolCallPart, ToolResultPart

ENTRY_CHARACTERS = 320
OLD_ENTRY_CHARACTERS = 110
READ_ONLY_TOOLS = frozenset({"read_file", "search_files", "list_files"})
READ_ONLY_ACTIONS = {"process_manage": frozenset({"list", "poll", "log", "wait"})}
READ_ONLY_COMMANDS = frozenset(
    {
        "ls",
        "cat",
        "head",
        "tail",
        "grep",
        "rg",
        "egrep",
        "wc",
        "pwd",
        "which",
        "whoami",
        "id",
        "stat",
        "file",
        "du",
        "df",
        "ps",
    }
)
_SHELL_WRITES = re.compile(r"[>|;&`\n]|\$\(")
_COUNT = re.compile(r"^(.*) \((\d+) times\)$")
_OLDER = re.compile(r"^older calls without detail: (.*)$")
_NOT_RUN = re.compile(r"^Not run\b")
_UNKNOWN = re.compile(r"(?i)effect (?:is |may be )?(?:unknown|partial)|^Interrupted\b")


def entries_of(messages: Sequence[Message]) -> list[str]:
    """Return a line for each call that may have changed something, in order."""
    found: list[str] = []
    for row, message in enumerate(messages):
        if message.role is not Role.ASSISTANT or not message.tool_calls():
            continue
        following = messages[row + 1].parts if row + 1 < len(messages) else ()
        results = {part.call_id: part for part in following if isinstance(part, ToolResultPart)}
        for call in message.tool_calls():
            result = results.get(call.id)
            if _changes(call) and not (result is not None and _NOT_RUN.match(result.text)):
                found.append(_entry(call, result))
    return found


def merge(before: Sequence[str], new: Iterable[str], characters: int) -> list[str]:
    """Return one record within so many characters: the newest in full, older ones cut, the oldest as counts by tool."""
    counts: Counter[str] = Counter()
    older: Counter[str] = Counter()
    for line in [*before, *new]:
        if match := _OLDER.match(line):
            older.update(_counts(match[1]))
            continue
        text, times = _times(line)
        previous = counts.pop(text, 0)
        counts[text] = previous + times
    kept: list[str] = []
    left = characters
    for text, times in reversed(counts.items()):
        line = _counted(text if left > characters // 2 else text[:OLD_ENTRY_CHARACTERS], times)
        if len(line) + 3 > left - 200 and left != characters:
            older[text.split(" ", 1)[0]] += times
            continue
        left -= len(line) + 3
        kept.append(line)
    if older:
        common = older.most_common(12)
        kept.append("older calls without detail: " + ", ".join(f"{tool} x{count}" for tool, count in common))
    return kept[::-1]


def _changes(call: ToolCallPart) -> bool:
    if call.name in READ_ONLY_TOOLS:
        return False
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return True
    if not isinstance(arguments, dict):
        return True
    if call.name in READ_ONLY_ACTIONS:
        return arguments.get("action") not in READ_ONLY_ACTIONS[call.name]
    command = arguments.get("command")
    if call.name == "terminal" and isinstance(command, str):
        words = command.split()
        return not words or words[0] not in READ_ONLY_COMMANDS or bool(_SHELL_WRITES.search(command))
    return True


def _entry(call: ToolCallPart, result: ToolResultPart | None) -> str:
    arguments = redact(_one_line(shrink_arguments(call.arguments, 160, redact)))
    if result is None or _UNKNOWN.search(result.text[:400]):
        outcome = "effect unknown"
    else:
        first = next((line.strip() for line in result.text.splitlines() if line.strip()), "")
        outcome = f"{'failed' if result.is_error else 'ok'}: {redact(first[:80])}"
    head = f"{call.name} {arguments}"
    return f"{head[: ENTRY_CHARACTERS - len(outcome) - 4]} -> {outcome}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _times(line: str) -> tuple[str, int]:
    match = _COUNT.match(line)
    return (match[1], min(int(match[2][:9]), 10**9)) if match else (line[:ENTRY_CHARACTERS], 1)


def _counted(text: str, times: int) -> str:
    return f"{text} ({times} times)" if times > 1 else text


def _counts(text: str) -> dict[str, int]:
    pairs = re.findall(r"(\S+) x(\d{1,9})", text)
    return {tool: int(count) for tool, count in pairs}
