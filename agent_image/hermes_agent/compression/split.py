"""Decides which messages stay: the beginning, the end, and what between them becomes the summary. Pure.

A call and its results are one group and are never parted; calls without results are in the tail, whatever it costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hermes_agent.compression.budget import Budget
from hermes_agent.compression.shrink import cut_results, prune_results, slim, without_images, without_thinking
from hermes_agent.compression.sizes import message_tokens, transcript_tokens
from hermes_agent.compression.summary import ACKNOWLEDGED, BRIDGE, Summary, read_message
from hermes_agent.prompt.first_message import STEERED
from hermes_contracts.conversation import ImagePart, Message, Part, Role, TextPart

MIN_RESULT_CHARACTERS = 400
MAX_HEAD_ROWS = 40
"""Where an earlier summary is looked for: a head is never longer."""
_BRIDGES = (Message.assistant(BRIDGE), Message.assistant(ACKNOWLEDGED))


@dataclass(frozen=True)
class Split:
    """A transcript in three."""

    head: list[Message]
    middle: list[Message]
    tail: list[Message]
    previous: Summary | None
    """The summary that an earlier pass left; it is in neither of the three."""
    pinned: Message | None
    """What the user said in the running turn, as far as it was in the middle; it is taken out of there."""


def groups_of(messages: Sequence[Message]) -> list[range]:
    """Return rows that belong together: an assistant's calls, their results, and what the user said into the turn there."""
    groups: list[range] = []
    row = 0
    while row < len(messages):
        calls = messages[row].role is Role.ASSISTANT and bool(messages[row].tool_calls())
        answered = calls and row + 1 < len(messages) and messages[row + 1].role is Role.TOOL
        stop = row + (2 if answered else 1)
        while stop < len(messages) and is_steering(messages[stop]):
            stop += 1
        groups.append(range(row, stop))
        row = stop
    return groups


def split(messages: Sequence[Message], budget: Budget) -> Split:
    """Cut a transcript within the budget; what is kept is shortened where it is longer than its share."""
    before, previous, rest = _previous(messages)
    if previous is None:
        before, rest = [], list(messages)
    candidates = before if previous else rest[: max(opening_row(rest), 0)]
    head_rows = _head_rows(candidates, budget)
    head = candidates[:head_rows]
    # What an earlier pass had left at the beginning and what no longer fits there belongs to the middle now.
    rest = [*before[head_rows:], *rest] if previous else rest[head_rows:]
    start = _tail_start(rest, budget)
    words = [row for row in range(max(opening_row(rest), 0), start) if rest[row].role is Role.USER]
    middle = [message for row, message in enumerate(rest[:start]) if row not in words]
    return Split(_pruned_head(head), middle, _tail(rest[start:], budget), previous, _joined([rest[row] for row in words]))


def opening_row(messages: Sequence[Message]) -> int:
    """Return the row that opened the running turn, -1 when there is none."""
    for row in range(len(messages) - 1, -1, -1):
        if messages[row].role is Role.USER and not is_steering(messages[row]):
            return row
    return -1


def is_steering(message: Message) -> bool:
    """Tell whether the user said this into a running turn."""
    return message.role is Role.USER and message.text().startswith(STEERED)


def _joined(messages: Sequence[Message]) -> Message | None:
    parts: list[Part] = []
    for message in messages:
        parts += [TextPart(text="\n\n"), *message.parts] if parts else message.parts
    return Message(role=Role.USER, parts=tuple(parts)) if parts else None


def _previous(messages: Sequence[Message]) -> tuple[list[Message], Summary | None, list[Message]]:
    for row, message in enumerate(messages[:MAX_HEAD_ROWS]):
        found = read_message(message)
        if found is None:
            continue
        summary, pinned = found
        head = list(messages[:row])
        while head and head[-1] in _BRIDGES:
            head.pop()
        rest = list(messages[row + 1 :])
        if rest and rest[0] in _BRIDGES:
            rest = rest[1:]
        return head, summary, [pinned, *rest] if pinned else rest
    return [], None, list(messages)


def _head_rows(messages: Sequence[Message], budget: Budget) -> int:
    rows = tokens = 0
    for group in groups_of(messages):
        tokens += sum(message_tokens(message) for message in prune_results([messages[row] for row in group]))
        if rows >= budget.head_rows or tokens > budget.head_tokens:
            break
        rows = group.stop
    return rows


def _tail_start(messages: Sequence[Message], budget: Budget) -> int:
    rows = tokens = 0
    start = len(messages)
    for group in reversed(groups_of(messages)):
        size = sum(message_tokens(messages[row]) for row in group)
        fits = rows + len(group) <= budget.tail_rows and tokens + size <= budget.tail_tokens
        if rows and rows >= budget.tail_floor and not fits:
            break
        rows, tokens, start = rows + len(group), tokens + size, group.start
    return start


def _pruned_head(messages: list[Message]) -> list[Message]:
    return [without_images(without_thinking(message)) for message in prune_results(messages)]


def _tail(messages: list[Message], budget: Budget) -> list[Message]:
    """Shorten a tail that is over its budget: older results first, then what assistants wrote, the newest round last."""
    tail = _only_newest_images(messages)
    groups = [group for group in groups_of(tail) if tail[group.start].role is Role.ASSISTANT]
    if not groups:
        return tail
    for group in groups[:-1]:
        if transcript_tokens(tail) > budget.tail_tokens:
            _cut_group(tail, group, MIN_RESULT_CHARACTERS)
    for group in groups[:-1]:
        if transcript_tokens(tail) > budget.tail_tokens:
            tail[group.start] = slim(tail[group.start], 4 * MIN_RESULT_CHARACTERS)
    newest = groups[-1]
    if sum(message_tokens(tail[row]) for row in newest) > budget.newest_tokens:
        results = max(1, sum(len(tail[row].parts) for row in newest if tail[row].role is Role.TOOL))
        _cut_group(tail, newest, max(MIN_RESULT_CHARACTERS, budget.newest_tokens * 3 // results))
    return tail


def _cut_group(tail: list[Message], group: range, characters: int) -> None:
    for row in group:
        if tail[row].role is Role.TOOL:
            tail[row] = cut_results(tail[row], characters)


def _only_newest_images(messages: list[Message]) -> list[Message]:
    shown = [row for row, m in enumerate(messages) if any(isinstance(part, ImagePart) for part in m.parts)]
    return [without_images(message) if row in shown[:-1] else message for row, message in enumerate(messages)]
