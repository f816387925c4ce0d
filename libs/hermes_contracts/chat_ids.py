"""What the ids of chat platforms look like."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

PlatformId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]

PERSON_FORMS = {"slack": r"[UWB][A-Z0-9]{1,63}", "telegram": r"[1-9][0-9]{0,19}"}
CHAT_FORMS = {"slack": r"[CGD][A-Z0-9]{1,63}", "telegram": r"-[1-9][0-9]{0,19}"}
"""By platform. An id that does not look so is mistyped, and would let in nobody."""
EXAMPLES = {"slack": ("U0123ABCD", "C0123ABCD"), "telegram": ("123456789, a number and no @name", "-1001234567890")}
"""A person and a room."""
