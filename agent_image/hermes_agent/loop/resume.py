"""Where an interrupted turn goes on. Finished calls keep their results; nothing is run a second time. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_contracts.conversation import Message, Role, ToolCallPart, ToolResultPart
from hermes_contracts.store_api import JournalEntry

INTERRUPTED = (
    "Interrupted: the agent was restarted while this call was running. Its effect is unknown: it may have happened wholly, "
    "partly or not at all. Check what is true now before you repeat it."
)
NOT_RUN = "Not run: the agent was restarted before this call began."


def interrupted_results(calls: Sequence[ToolCallPart], journal: Sequence[JournalEntry], note: str = "") -> Message:
    """Return the results of calls whose own were lost: the journal tells those that began from those that did not.

    `note` is what the platform has to say besides.
    """
    began = {entry.call_id for entry in journal}
    more = f"\n{note}" if note else ""
    return Message(
        role=Role.TOOL,
        parts=tuple(
            ToolResultPart(
                call_id=call.id, name=call.name, text=(INTERRUPTED if call.id in began else NOT_RUN) + more, is_error=True
            )
            for call in calls
        ),
    )
