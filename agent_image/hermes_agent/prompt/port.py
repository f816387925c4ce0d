"""What the rest of the agent asks of this package."""

from __future__ import annotations

from typing import Protocol

from hermes_contracts.envelopes import Inbound
from hermes_contracts.store_api import FrozenPrompt


class PromptBuilder(Protocol):
    """Makes the prompt that a conversation is frozen with. Neither method fails because of what the workspace holds."""

    async def build(self, inbound: Inbound) -> FrozenPrompt:
        """Return the prompt of a new conversation, from the message of its first turn."""
        ...

    async def rebuild(self, system: str) -> FrozenPrompt:
        """Return a fresh prompt for a conversation whose text is being compacted: date, workspace and context files anew.

        `system` is the prompt it has now: channel and caller's instructions are taken over from it.
        """
        ...
