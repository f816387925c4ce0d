"""Who may use the gateway: API keys, webhook routes, chat accounts. All come from files that Secrets are mounted as."""

from __future__ import annotations

import base64
import re
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from hermes_contracts.chat_ids import CHAT_FORMS, EXAMPLES, PERSON_FORMS, PlatformId
from hermes_contracts.envelopes import Target
from hermes_contracts.names import HOME_CHANNEL, DnsLabel, ObjectName

Scope = Literal["chat", "sessions", "jobs", "people"]
"""`people`: let people into chat accounts and read the record of who decided what; for administrators."""


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


SignatureStyle = Literal["hermes", "github", "stripe", "slack", "standard"]
WebhookSecret = Annotated[str, StringConstraints(min_length=16, max_length=512)]
ToolsetName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]

WEBHOOK_TOOLSETS: tuple[str, ...] = ("web", "vision", "clarify")
"""What a webhook's agent may use unless its route says otherwise: others wrote what reaches it, so nothing with effects."""


class WebhookRoute(_Record):
    """A named webhook: bound to a namespace and Profile by the administrator, verified by a signature of its sender's style.

    See docs/webhooks.md. `reply_url` gets the answer, signed by the style `hermes` with the same secret.
    """

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
    namespace: DnsLabel
    profile: ObjectName
    style: SignatureStyle = "hermes"
    secret: WebhookSecret
    older_secrets: tuple[WebhookSecret, ...] = Field(default=(), max_length=3)
    """Still accepted while the sender changes over to `secret`."""
    replay_window_seconds: int = Field(default=300, ge=10, le=3600)
    events: tuple[Annotated[str, StringConstraints(min_length=1, max_length=100)], ...] = Field(default=(), max_length=64)
    """Kinds of event that are taken, `pull_request` or `pull_request.opened`; others are answered and dropped. None: all."""
    prompt: Annotated[str, StringConstraints(max_length=16_000)] = ""
    """What the agent is told: text with `{dotted.paths}` into the payload, `{__raw__}` for all of it."""
    thread: Annotated[str, StringConstraints(max_length=256)] = ""
    """Which session a message belongs to, in the same grammar; empty: one for the route."""
    toolsets: tuple[ToolsetName, ...] = Field(default=WEBHOOK_TOOLSETS, max_length=16)
    """Narrows the Profile's; what it has not is left out."""
    deliver: tuple[Target, ...] = Field(default=(), max_length=8)
    """Chats that get the answer, beside `reply_url`."""
    deliver_only: bool = False
    """The text goes to `deliver` as it is, and no agent is asked."""
    requests_per_minute: int | None = Field(default=None, ge=1, le=1_000_000)
    """Verified requests that one gateway takes; more are a 429."""
    reply_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$", max_length=500)] | None = None

    @model_validator(mode="after")
    def _hangs_together(self) -> WebhookRoute:
        if self.style == "standard":
            for secret in (self.secret, *self.older_secrets):
                standard_webhook_key(secret)
        if self.deliver_only and not self.deliver:
            raise ValueError("deliver: deliver_only needs at least one chat to deliver to")
        if self.deliver_only and self.reply_url is not None:
            raise ValueError("reply_url: with deliver_only there is no answer to post; leave it out")
        if self.deliver_only and any(target.channel == HOME_CHANNEL for target in self.deliver):
            raise ValueError("deliver: a home is somebody's with an agent, and deliver_only asks none; name the chat")
        return self

    def __repr__(self) -> str:
        """Keep the secret out of logs."""
        return f"WebhookRoute({self.name!r})"


def standard_webhook_key(secret: str) -> bytes:
    """Return the key of a Standard Webhooks secret. Raises ValueError, without the secret, when it is none."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        raise ValueError("secret: the style standard needs `whsec_` and base64") from None
    if not 16 <= len(key) <= 128:
        raise ValueError("secret: the style standard needs a key of 16 to 128 bytes")
    return key


class WebhookRoutes(_Record):
    """`webhooks.json`."""

    routes: tuple[WebhookRoute, ...] = ()


ChatCommandName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z-]{0,31}$")]


def _require_ids(account: ChatAccount, channel: str) -> None:
    """Refuse an id that the platform never gives: it would let in nobody, and nobody would know."""
    person, chat = EXAMPLES[channel]
    people, chats = (PERSON_FORMS[channel], person), (CHAT_FORMS[channel], chat)
    forms = {"allow_users": people, "admins": people, "group_admins": people, "allow_chats": chats}
    for field, (form, looks_like) in forms.items():
        for value in getattr(account, field):
            if re.fullmatch(form, value) is None:
                raise ValueError(f"{field}: {value!r} is no id; one looks like {looks_like}")


class ChatAccount(_Record):
    """A bot on a chat platform, bound by the administrator: which Profile answers there, and to whom. Default is nobody."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
    namespace: DnsLabel
    profile: ObjectName
    profiles: tuple[ObjectName, ...] = Field(default=(), max_length=64)
    """Other Profiles of the namespace that may claim chats of this account, by `spec.channels`; one without an entry for it
    is what people may choose with `/profile`."""
    allow_users: tuple[PlatformId, ...] = Field(default=(), max_length=10_000)
    """People who may use it, by the platform's id; the only way in for guests and people of connected organisations."""
    allow_chats: tuple[PlatformId, ...] = Field(default=(), max_length=1_000)
    """Chats whose members may use it there, guests, bots and connected organisations apart."""
    allow_everyone: bool = False
    """All members of the account's own workspace, guests and bots apart."""
    pairing: bool = False
    """Strangers who write directly are given a code, and whom an admin approves by it may use the account."""
    admins: tuple[PlatformId, ...] = Field(default=(), max_length=1_000)
    """People who may say every command in direct chats; empty: all who may talk. It lets nobody in who is not allowed."""
    user_commands: tuple[ChatCommandName, ...] = Field(default=(), max_length=64)
    """Commands, without the slash, that others than admins may say in direct chats, beside `help` and `whoami`."""
    group_admins: tuple[PlatformId, ...] = Field(default=(), max_length=1_000)
    """The same as `admins`, for rooms."""
    group_user_commands: tuple[ChatCommandName, ...] = Field(default=(), max_length=64)
    """The same as `user_commands`, for rooms."""
    session_scope: Literal["User", "Conversation"] = "User"
    """`User`: a person has one agent, with a conversation a thread; `Conversation`: each chat and thread has its own."""

    @property
    def account(self) -> str:
        """Name of the account in routing keys."""
        return self.name

    @model_validator(mode="after")
    def _people_need_admins(self) -> Self:
        if self.pairing and not (self.admins or self.group_admins):
            raise ValueError("pairing: nobody could approve a code; name admins, or leave it out")
        if self.user_commands and not self.admins:
            raise ValueError("user_commands: without admins everybody may say every command; name admins, or leave it out")
        if self.group_user_commands and not self.group_admins:
            raise ValueError(
                "group_user_commands: without group_admins everybody may say every command; name them, or leave it out"
            )
        return self


class SlackAccount(ChatAccount):
    """A Slack app in a workspace."""

    team: Annotated[str, StringConstraints(pattern=r"^[TE][A-Z0-9]{1,31}$")]
    """Workspace that the app is installed in."""
    app: Annotated[str, StringConstraints(pattern=r"^A[A-Z0-9]{1,31}$")]
    signing_secret: Annotated[str, StringConstraints(min_length=16, max_length=200)]
    bot_token: Annotated[str, StringConstraints(min_length=10, max_length=500)]
    app_token: Annotated[str, StringConstraints(pattern=r"^xapp-[^\s]{5,500}$")] | None = None
    """Set: events come by Socket Mode, over a connection that we open, and Slack needs no address of ours."""
    api_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+/$", max_length=500)] = "https://slack.com/api/"

    @model_validator(mode="after")
    def _ids_are_slacks(self) -> Self:
        _require_ids(self, "slack")
        return self

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


class TelegramAccount(ChatAccount):
    """A bot of Telegram's. Updates are posted to us where `webhook_url` is set, and fetched by us otherwise."""

    bot_token: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,20}:[A-Za-z0-9_-]{20,100}$")]
    webhook_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$", max_length=500)] | None = None
    """Our public address, ending with `/telegram/<name>`."""
    secret_token: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{16,256}$")] | None = None
    """Telegram shows it with each post."""
    api_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+/$", max_length=500)] = "https://api.telegram.org/"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.allow_everyone:
            raise ValueError("allow_everyone: anybody in the world can write to a bot of Telegram's; use allow_users")
        if (self.webhook_url is None) != (self.secret_token is None):
            raise ValueError("webhook_url and secret_token belong together: set both, or none and updates are fetched")
        if self.webhook_url is not None and not self.webhook_url.endswith(f"/telegram/{self.name}"):
            raise ValueError(f"webhook_url: must end with /telegram/{self.name}")
        return self

    @model_validator(mode="after")
    def _ids_are_telegrams(self) -> Self:
        _require_ids(self, "telegram")
        return self

    @property
    def account(self) -> str:
        """The bot's number, as part of its token: stays the same when the token is renewed."""
        return self.bot_token.partition(":")[0]

    def __repr__(self) -> str:
        """Keep the secrets out of logs."""
        return f"TelegramAccount({self.name!r})"


class TelegramAccounts(_Record):
    """`telegram.json`."""

    accounts: tuple[TelegramAccount, ...] = ()
