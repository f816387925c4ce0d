"""Who may use the gateway: API keys and webhook routes. Both come from files that Secrets are mounted as."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from hermes_contracts.names import DnsLabel, ObjectName

Scope = Literal["chat", "sessions"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ApiKeyRecord(_Record):
    """One API key, by the hash of its text."""

    id: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]{1,64}$")]
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    owner: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    namespace: DnsLabel
    profiles: tuple[ObjectName, ...] = Field(min_length=1)
    scopes: tuple[Scope, ...] = ("chat", "sessions")


class ApiKeys(_Record):
    """`keys.json`."""

    keys: tuple[ApiKeyRecord, ...] = ()


class WebhookRoute(_Record):
    """A named webhook: bound to a namespace and Profile by the administrator, verified by HMAC-SHA256.

    The sender signs `<timestamp>.<body>`; see docs/webhooks.md. `reply_url` gets the answer, signed the same way.
    """

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
    namespace: DnsLabel
    profile: ObjectName
    secret: Annotated[str, StringConstraints(min_length=16, max_length=512)]
    replay_window_seconds: int = Field(default=300, ge=10, le=3600)
    reply_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$", max_length=500)] | None = None

    def __repr__(self) -> str:
        """Keep the secret out of logs."""
        return f"WebhookRoute({self.name!r})"


class WebhookRoutes(_Record):
    """`webhooks.json`."""

    routes: tuple[WebhookRoute, ...] = ()
