"""Builds what serves chat platforms: adding one means adding it here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from nats.aio.client import Client

from hermes_contracts.access import SlackAccount
from hermes_gateway.gateway.channels.base import Door
from hermes_gateway.gateway.channels.command_answers import CommandAnswers
from hermes_gateway.gateway.channels.conversations import Conversations
from hermes_gateway.gateway.channels.pipeline import Pipeline
from hermes_gateway.gateway.channels.slack.channel import SlackChannel
from hermes_gateway.gateway.channels.slack.door import SlackDoor
from hermes_gateway.gateway.channels.slack.events import SlackEvents
from hermes_gateway.gateway.channels.slack.socket import SlackSockets
from hermes_gateway.gateway.delivery.chat_sender import ChatSender
from hermes_gateway.gateway.delivery.chats import Chat
from hermes_gateway.gateway.delivery.deliver import Send
from hermes_gateway.gateway.delivery.previews import PreviewRecords, Previews
from hermes_gateway.gateway.hub import SubjectHub
from hermes_gateway.gateway.ingest import Ingest
from hermes_gateway.gateway.profiles import ProfileCache
from hermes_service.rpc import StoreClient

_COMMAND_WAIT_SECONDS = 1.0
"""Platforms want an answer within 3 s, of which the store and the platform itself may take two."""


@dataclass(frozen=True)
class ChatPlatforms:
    """What the rest of the gateway needs of them."""

    pipeline: Pipeline
    previews: Previews
    doors: tuple[Door, ...]
    listeners: tuple[Callable[[], Coroutine[None, None, None]], ...]
    """What goes and gets messages, for ever; the caller's to run."""
    senders: Mapping[str, Send]


@asynccontextmanager
async def chat_platforms(  # noqa: PLR0913 - the gateway's parts meet here, named
    bus: Client,
    store: StoreClient,
    hub: SubjectHub,
    profiles: ProfileCache,
    ingest: Ingest,
    slack_accounts: Callable[[], Mapping[str, SlackAccount]],
    instance: str,
    *,
    timeout_seconds: float,
) -> AsyncIterator[ChatPlatforms]:
    """Build them, and close their connections afterwards. `pipeline.run` and the deliveries are the caller's to run."""
    js = bus.jetstream()
    slack = SlackChannel(slack_accounts, timeout_seconds=timeout_seconds)
    chats = {slack.name: Chat.of(slack)}
    previews = Previews(bus, hub, PreviewRecords(js), chats)
    answers = CommandAnswers(store, Conversations(js), _COMMAND_WAIT_SECONDS)
    pipeline = Pipeline(profiles, ingest, answers, previews, chats)
    events = SlackEvents(pipeline)
    sockets = SlackSockets(slack_accounts, events, js, instance)
    senders = {name: ChatSender(chat, previews).send for name, chat in chats.items()}
    try:
        yield ChatPlatforms(pipeline, previews, (SlackDoor(slack_accounts, events),), (sockets.run,), senders)
    finally:
        await slack.close()
