"""What must be true of a compacted transcript before it replaces the old one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hermes_agent.compression.budget import Budget
from hermes_agent.compression.sizes import last_user_row, transcript_bytes, transcript_tokens
from hermes_agent.compression.summary import read_message
from hermes_contracts.conversation import Message, Role, TextPart, ToolCallPart, ToolResultPart

MIN_SAVING = 0.10
MIN_SAVING_ON_OVERFLOW = 0.05
Ruler = Literal["tokens", "bytes"]


def problems(
    before: Sequence[Message],
    after: Sequence[Message],
    budget: Budget,
    *,
    ruler: Ruler = "tokens",
    min_saving: float = MIN_SAVING,
) -> list[str]:
    """Return what is wrong with `after`; an empty list when it may replace `before`."""
    measure = transcript_bytes if ruler == "bytes" else transcript_tokens
    was, now = measure(before), measure(after)
    found = []
    if now > was * (1 - min_saving):
        found.append(f"too little was saved: {now} of {was} {ruler} are left")
    if (size := sum(len(m.model_dump_json().encode()) for m in after)) > budget.max_bytes:
        found.append(f"too long for the store: {size} bytes")
    found += illegal(after)
    if not _newest_user_text_is_there(before, after):
        found.append("the user's newest message is not there")
    if _last_calls(before) != _last_calls(after):
        found.append("the newest round of calls is not there")
    return found


def illegal(messages: Sequence[Message]) -> list[str]:
    """Return where calls and results do not match, or roles do not alternate."""
    found = []
    earlier: Message | None = None
    for row, message in enumerate([*messages, None]):
        wanted = [call.id for call in earlier.tool_calls()] if earlier else []
        if message is None:
            break
        given = [part.call_id for part in message.parts if isinstance(part, ToolResultPart)]
        if wanted != given and (wanted or given):
            found.append(f"row {row}: calls and results do not match")
        if (earlier.role if earlier else Role.ASSISTANT) is message.role:
            found.append(f"row {row}: two rows of {message.role.value} in a row")
        earlier = message
    return found


def _newest_user_text_is_there(before: Sequence[Message], after: Sequence[Message]) -> bool:
    row = last_user_row(before)
    if row < 0:
        return True
    earlier = read_message(before[row])
    newest = earlier[1] if earlier else before[row]
    wanted = {part.text for part in newest.parts if isinstance(part, TextPart)} if newest else set()
    return any(wanted <= {p.text for p in m.parts if isinstance(p, TextPart)} for m in after if m.role is Role.USER)


def _last_calls(messages: Sequence[Message]) -> list[str]:
    for message in reversed(messages[-2:]):
        if message.role is Role.ASSISTANT:
            return [part.id for part in message.parts if isinstance(part, ToolCallPart)]
    return []
