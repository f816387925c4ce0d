"""What every channel is made of: messages that come in, places that answers go to, and what the pipeline may ask of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from starlette.routing import Route as HttpRoute

from hermes_contracts.access import ChatAccount
from hermes_contracts.envelopes import Choice, OutFile, Target
from hermes_contracts.names import RoutingKey
from hermes_gateway.gateway.delivery.backoff import Verdict


@dataclass(frozen=True)
class Arrival:
    """A verified message of a system: where it was written, which one it is, and what it says."""

    key: RoutingKey
    update_id: str
    text: str
    sender: str = ""
    quoted: bool = False
    """Whether the text quotes what others wrote, and is not the sender's own words to the agent."""


@dataclass(frozen=True)
class Attachment:
    """A file that came with a message, and what the platform fetches it by."""

    name: str
    size: int
    """Bytes, as the platform says; 0: it does not say."""
    handle: str


MAX_ATTACHMENTS = 16


@dataclass(frozen=True)
class Pressed:
    """A message of ours with buttons, one of which a person has pressed."""

    message_id: str
    text: str
    """Rendered, as the chat has it."""


@dataclass(frozen=True)
class ChatMessage:
    """A verified message of a person, in the platform's own ids.

    `update_id` is the same whenever the platform sends the message again. `order` sorts messages of one chat by the time
    they were written. `thread` is where it was written, `reply_thread` where it is answered; empty is the chat itself.
    """

    channel: str
    account: str
    team: str
    user: str
    chat: str
    kind: Literal["direct", "group"]
    thread: str
    reply_thread: str
    update_id: str
    order: str
    text: str
    bot: bool = False
    foreign: bool = False
    """From another organisation than the account's."""
    attachments: tuple[Attachment, ...] = ()
    pressed: Pressed | None = None
    """Set: `text` is the command of a button."""
    said_once: bool = False
    """The platform does not send it again, whatever becomes of it: a slash command."""

    @property
    def place(self) -> Target:
        """Where it is answered."""
        return Target(channel=self.channel, account=self.account, chat=self.chat, thread=self.reply_thread)


@dataclass(frozen=True)
class Capabilities:
    """What a platform can do, and its limits. Lengths are in the platform's own unit, measured by `measure`."""

    max_characters: int
    """Longest message, rendered."""
    max_edit_characters: int
    """Longest text that a message can be edited to; 0: messages cannot be edited."""
    measure: Callable[[str], int] = len
    threads: bool = False


@dataclass(frozen=True)
class FileToSend:
    """A file on its way to a chat, bytes and all."""

    file: OutFile
    data: bytes = field(repr=False)
    delivery_id: str
    after: str
    """Delivery id of the last text before it in the same answer; empty when there is none."""


@dataclass(frozen=True)
class Sent:
    """A message that a chat has."""

    message_id: str


class Door(Protocol):
    """What a channel adds to the public listener."""

    def routes(self) -> Sequence[HttpRoute]:
        """Return its HTTP routes."""
        ...

    def serves(self, path: str) -> bool:
        """Tell from the path alone whether a request is one of its own; asked before the body is read."""
        ...


class ChatChannel(Protocol):
    """A chat platform, as the shared pipeline sees it. No method raises for what the platform does."""

    name: str
    capabilities: Capabilities

    def account(self, account: str) -> ChatAccount | None:
        """Return an account as the administrator bound it; None when it is not configured (any more)."""
        ...

    def seconds_between(self, place: Target) -> float:
        """Return the shortest time between two writes to a chat."""
        ...

    def render(self, markdown: str) -> str:
        """Return Markdown in the platform's own markup."""
        ...

    async def send(self, place: Target, text: str, delivery_id: str, choices: Sequence[Choice] = ()) -> Verdict:
        """Post rendered text with buttons. With a delivery id, `find` finds the message by it."""
        ...

    async def edit(self, place: Target, message_id: str, text: str, choices: Sequence[Choice] = ()) -> Verdict:
        """Replace a message's text and buttons. NOT found is `failed`."""
        ...

    async def delete(self, place: Target, message_id: str) -> Verdict:
        """Take a message away; one that is gone counts as taken away."""
        ...

    async def find(self, place: Target, delivery_id: str) -> Verdict:
        """Look for a message that an attempt may have posted: `delivered` with its id, `failed` when there is none."""
        ...

    async def send_file(self, place: Target, sent: FileToSend) -> Verdict:
        """Post a file, its caption below it."""
        ...

    async def find_file(self, place: Target, sent: FileToSend) -> Verdict:
        """Look for a file that an attempt may have posted, as `find` does."""
        ...

    async def fetch(self, message: ChatMessage, attachment: Attachment) -> bytes:
        """Return a file's bytes. Raises HermesError with a few words on why there are none."""
        ...

    async def typing(self, place: Target) -> None:
        """Show for some seconds that an answer is on its way, where the platform can."""
        ...

    async def is_guest(self, message: ChatMessage) -> bool:
        """Tell whether a person is less than a full member. Raises HermesError UNAVAILABLE when nobody can tell now."""
        ...
