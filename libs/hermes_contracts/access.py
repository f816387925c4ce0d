"""Who may use the gateway: API keys, webhook routes, chat accounts. All come from files that Secrets are mounted as."""

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


PlatformId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class ChatAccount(_Record):
    """A bot on a chat platform, bound by the administrator: which Profile answers there, and to whom. Default is nobody."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
    namespace: DnsLabel
    profile: ObjectName
    allow_users: tuple[PlatformId, ...] = Field(default=(), max_length=10_000)
    """People who may use it, by the platform's id; the only way in for guests and people of connected organisations."""
    allow_chats: tuple[PlatformId, ...] = Field(default=(), max_length=1_000)
    """Chats whose members may use it there, guests, bots and connected organisations apart."""
    allow_everyone: bool = False
    """All members of the account's own workspace, guests and bots apart."""
    session_scope: Literal["User", "Conversation"] = "User"
    """`User`: a person has one agent, with a conversation a thread; `Conversation`: each chat and thread has its own."""


class SlackAccount(ChatAccount):
    """A Slack app in a workspace."""

    team: Annotated[str, StringConstraints(pattern=r"^[TE][A-Z0-9]{1,31}$")]
    """Workspace that the app is installed in."""
    app: Annotated[str, StringConstraints(pattern=r"^A[A-Z0-9]{1,31}$")]
    signing_secret: Annotated[str, StringConstraints(min_length=16, max_length=200)]
    bot_token: Annotated[str, StringConstraints(min_length=10, max_length=500)]
    api_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+/$", max_length=500)] = "https://slack.com/api/"

    @property
    def account(self) -> str:
        """Name of the account in routing keys: stays the same when the administrator renames it."""
        return f"{self.team}.{self.app}"

    def __repr__(self) -> str:
        """Keep the secrets out of logs."""
        return f"SlackAccount({self.name!r})"


class SlackAccounts(_Record):
    """`slack.json`."""

    accounts: tuple[SlackAccount, ...] = ()
