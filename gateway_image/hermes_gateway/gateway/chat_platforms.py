"""Builds what serves chat platforms: adding one means adding it here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from nats.aio.client import Client

from hermes_contracts.access import ChatAccount, SlackAccount, TelegramAccount
from hermes_contracts.envelopes import Inbound, Route
from hermes_contracts.names import HOME_CHANNEL
from hermes_gateway.gateway.approvals.desk import AnswerDesk
from hermes_gateway.gateway.channels.base import Door
from hermes_gateway.gateway.channels.command_answers import CommandAnswers
from hermes_gateway.gateway.channels.conversation_commands import ConversationCommands
from hermes_gateway.gateway.channels.conversations import Conversations
from hermes_gateway.gateway.channels.pipeline import Pipeline
from hermes_gateway.gateway.channels.slack.channel import SlackChannel
from hermes_gateway.gateway.channels.slack.door import SlackDoor
from hermes_gateway.gateway.channels.slack.events import SlackEvents
from hermes_gateway.gateway.channels.slack.socket import SlackSockets
from hermes_gateway.gateway.channels.telegram.channel import TelegramChannel
from hermes_gateway.gateway.channels.telegram.door import TelegramDoor
from hermes_gateway.gateway.channels.telegram.updates import TelegramUpdates
from hermes_gateway.gateway.conversations.desk import ConversationDesk
from hermes_gateway.gateway.conversations.waiting import WaitingMessages
from hermes_gateway.gateway.delivery.chat_sender import ChatSender
from hermes_gateway.gateway.delivery.chats import Chat
from hermes_gateway.gateway.delivery.deliver import Send
from hermes_gateway.gateway.delivery.home_sender import HomeSender
from hermes_gateway.gateway.delivery.previews import PreviewRecords, Previews
from hermes_gateway.gateway.hub import SubjectHub
from hermes_gateway.gateway.ingest import Ingest
from hermes_gateway.gateway.jobs.chat import CronCommands
from hermes_gateway.gateway.jobs.router import jobs_client
from hermes_gateway.gateway.people.choosing import ProfileChoices
from hermes_gateway.gateway.people.linking import Linking
from hermes_gateway.gateway.people.pairing import Pairing
from hermes_gateway.gateway.profiles import ProfileCache
from hermes_service.rpc import StoreClient

_COMMAND_WAIT_SECONDS = 1.0
"""Platforms want an answer within 3 s, of which the store and the platform itself may take two."""


@dataclass(frozen=True)
class ChatPlatforms:
    """What the rest of the gateway needs of them."""

    pipeline: Pipeline
    previews: Previews
    telegram: TelegramChannel
    doors: tuple[Door, ...]
    listeners: tuple[Callable[[], Coroutine[None, None, None]], ...]
    """What goes and gets messages, for ever; the caller's to run."""
    senders: Mapping[str, Send]


@dataclass(frozen=True)
class ChatAccounts:
    """The accounts of each platform as they are now, by name."""

    slack: Callable[[], Mapping[str, SlackAccount]]
    telegram: Callable[[], Mapping[str, TelegramAccount]]

    def by_channel(self) -> Mapping[str, Callable[[], Mapping[str, ChatAccount]]]:
        """Return them by the platform's name."""
        return {"slack": self.slack, "telegram": self.telegram}


@asynccontextmanager
async def chat_platforms(  # noqa: PLR0913 - the gateway's parts meet here, named
    bus: Client,
    store: StoreClient,
    hub: SubjectHub,
    profiles: ProfileCache,
    ingest: Ingest,
    accounts: ChatAccounts,
    instance: str,
    *,
    timeout_seconds: float,
) -> AsyncIterator[ChatPlatforms]:
    """Build them, and close their connections afterwards. `pipeline.run` and the deliveries are the caller's to run."""
    js = bus.jetstream()
    slack = SlackChannel(accounts.slack, timeout_seconds=timeout_seconds)
    telegram = TelegramChannel(accounts.telegram, timeout_seconds=timeout_seconds)
    chats = {slack.name: Chat.of(slack), telegram.name: Chat.of(telegram)}
    previews = Previews(bus, hub, PreviewRecords(js), chats)

    async def post(route: Route, inbound: Inbound, traceparent: str) -> None:
        # Before the message: whoever shows the answer listens from its first word.
        await previews.announce(inbound)
        await ingest.publish(route, inbound, traceparent)

    desk = AnswerDesk(store, profiles, post)
    schedules = CronCommands(jobs_client(bus))
    conversations = Conversations(js)
    answers = CommandAnswers(
        store,
        conversations,
        _COMMAND_WAIT_SECONDS,
        desk,
        Pairing(store),
        Linking(store, js),
        schedules,
        ConversationCommands(ConversationDesk(store, WaitingMessages(js).count), conversations, profiles),
        ProfileChoices(js),
    )
    pipeline = Pipeline(profiles, ingest, answers, previews, chats)
    events = SlackEvents(pipeline)
    sockets = SlackSockets(accounts.slack, events, js, instance)
    updates = TelegramUpdates(telegram, pipeline)
    senders: dict[str, Send] = {name: ChatSender(chat, previews, store).send for name, chat in chats.items()}
    senders[HOME_CHANNEL] = HomeSender(store, dict(senders)).send
    try:
        yield ChatPlatforms(
            pipeline,
            previews,
            telegram,
            doors=(SlackDoor(accounts.slack, events), TelegramDoor(accounts.telegram, updates)),
            listeners=(sockets.run, partial(updates.run, accounts.telegram, js, instance)),
            senders=senders,
        )
    finally:
        await slack.close()
        await telegram.close()
