"""Wires the gateway's parts together and runs them until a signal comes."""

from __future__ import annotations

import asyncio
import gc
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import structlog
import uvloop
from fastapi import APIRouter
from nats.aio.client import Client
from nats.errors import Error as NatsError
from pydantic import ValidationError

from hermes_contracts import subjects
from hermes_contracts.access import SlackAccount, TelegramAccount, WebhookRoute
from hermes_contracts.errors import HermesError
from hermes_gateway.gateway import api, health
from hermes_gateway.gateway.access import Keyring, RecordFile, parse_slack, parse_telegram, parse_webhooks
from hermes_gateway.gateway.approvals.desk import AnswerDesk
from hermes_gateway.gateway.bindings.router import Bindings, build_router as bindings_router
from hermes_gateway.gateway.channels.listener import build_listener
from hermes_gateway.gateway.channels.webhook import WebhookChannel
from hermes_gateway.gateway.channels.webhook_reading import CHANNEL
from hermes_gateway.gateway.chat_platforms import ChatAccounts, chat_platforms
from hermes_gateway.gateway.conversations.desk import ConversationDesk
from hermes_gateway.gateway.conversations.waiting import WaitingMessages
from hermes_gateway.gateway.delivery.deliver import Deliverer, Send
from hermes_gateway.gateway.delivery.partitions import deliver_partitions
from hermes_gateway.gateway.delivery.sender import WebhookSender
from hermes_gateway.gateway.hooks.direct import DirectDelivery
from hermes_gateway.gateway.hub import SubjectHub
from hermes_gateway.gateway.idempotency import IdempotencyKeys
from hermes_gateway.gateway.ingest import Ingest
from hermes_gateway.gateway.jobs.router import build_router as jobs_router, jobs_client
from hermes_gateway.gateway.openai_api.calls import Calls
from hermes_gateway.gateway.openai_api.router import build_router as openai_router
from hermes_gateway.gateway.openai_api.service import ChatService
from hermes_gateway.gateway.people.router import build_router as people_router
from hermes_gateway.gateway.profiles import ProfileCache
from hermes_gateway.gateway.responses_api.records import ResponseRecords
from hermes_gateway.gateway.responses_api.router import build_router as responses_router
from hermes_gateway.gateway.responses_api.service import ResponsesService
from hermes_gateway.gateway.runs_api.router import build_router as runs_router
from hermes_gateway.gateway.runs_api.service import RunsService
from hermes_gateway.gateway.sessions_api.approvals import build_router as approvals_router
from hermes_gateway.gateway.sessions_api.conversations import build_router as conversations_router
from hermes_gateway.gateway.sessions_api.files import build_router as files_router
from hermes_gateway.gateway.sessions_api.replay import OpenStreams
from hermes_gateway.gateway.sessions_api.router import build_events_router as events_router, build_router as sessions_router
from hermes_gateway.gateway.sessions_api.service import SessionsService
from hermes_gateway.gateway.settings import GatewaySettings
from hermes_gateway.gateway.turns import Turns
from hermes_gateway.gateway.web.limits import BodyBudget
from hermes_gateway.gateway.web.server import serve
from hermes_service import bus as bus_door, lifecycle
from hermes_service.logs import configure_logging
from hermes_service.operations import Operations
from hermes_service.rpc import StoreClient, service_store_client
from hermes_service.settings import explain
from hermes_service.signing import Signer
from hermes_service.tracing import configure_tracing

log = structlog.get_logger()

_ROLE = "gateway"
_DRAIN_SECONDS = 5
_MAX_EVENT_STREAMS = 200
_LAST_WORDS_SECONDS = 3
"""Before calls in flight are cut: time to tell those that still wait where their answer will be."""


@dataclass(frozen=True)
class Ports:
    """Where the listeners are."""

    api: int
    webhooks: int
    operations: int


@asynccontextmanager
async def running(settings: GatewaySettings) -> AsyncIterator[Ports]:
    """Run the gateway while the context lasts. Raises HermesError or OSError when it cannot start."""
    async with AsyncExitStack() as stack:
        credentials = bus_door.BusCredentials.load(settings.bus_credentials_file)
        bus = await _connect(settings, credentials, stack)
        js = bus.jetstream()
        keyring = RecordFile(settings.api_keys_file, Keyring.parse, Keyring())
        webhooks = RecordFile[dict[str, WebhookRoute]](settings.webhooks_file, parse_webhooks, {})
        keyring.refresh()
        webhooks.refresh()
        slack = RecordFile[dict[str, SlackAccount]](settings.slack_file, parse_slack, {})
        slack.refresh()
        telegram = RecordFile[dict[str, TelegramAccount]](settings.telegram_file, parse_telegram, {})
        telegram.refresh()
        profiles, store, hub = ProfileCache(), service_store_client(bus, _ROLE), SubjectHub(bus)
        signer = Signer(settings.signing_seed_file.read_text().strip())
        ingest = Ingest(bus, js, signer, timeout_seconds=settings.publish_timeout_seconds)
        turns = Turns(ingest, hub, store, poll_seconds=settings.answer_poll_seconds, max_waiting=settings.max_waiting_calls)
        streams = OpenStreams(_MAX_EVENT_STREAMS)
        checks = health.Checks(
            bus,
            store,
            profiles,
            lambda: [file.problem for file in (keyring, webhooks, slack, telegram) if file.problem is not None],
        )
        operations = Operations()
        checks.register(operations)
        sender = WebhookSender(lambda: webhooks.current, timeout_seconds=settings.delivery_timeout_seconds)
        stack.push_async_callback(sender.close)
        instance = f"{socket.gethostname()}-{secrets.token_hex(4)}"
        accounts = ChatAccounts(lambda: slack.current, lambda: telegram.current)
        platforms = await stack.enter_async_context(
            chat_platforms(
                bus,
                store,
                hub,
                profiles,
                ingest,
                accounts,
                instance,
                timeout_seconds=settings.delivery_timeout_seconds,
            )
        )
        senders: dict[str, Send] = {CHANNEL: sender.send, **platforms.senders}
        deliverer = Deliverer(js, store, senders, max_attempts=settings.delivery_max_attempts)
        await stack.enter_async_context(
            _background(
                bus_door.follow_file(bus, credentials, settings.bus_credentials_file),
                keyring.follow(),
                webhooks.follow(),
                slack.follow(),
                telegram.follow(),
                profiles.run(bus, js),
                platforms.pipeline.run(),
                *(listen() for listen in platforms.listeners),
                deliver_partitions(bus, js, instance, deliverer, platforms.previews),
            )
        )
        public = build_listener(
            (WebhookChannel(lambda: webhooks.current, profiles, ingest, DirectDelivery(js, senders)), *platforms.doors),
            max_bytes=settings.webhook_max_body_bytes,
            timeout_seconds=settings.body_timeout_seconds,
        )
        private = api.guarded(
            api.build_application(
                *_routers(settings, bus, store, turns, hub, profiles, streams),
                people_router(store, accounts.by_channel()),
                health.build_router(checks),
                bindings_router(
                    Bindings(
                        profiles,
                        platforms.telegram,
                        accounts.by_channel(),
                        lambda: webhooks.current,
                        lambda namespace: keyring.current.owners(namespace),
                    )
                ),
            ),
            lambda: keyring.current,
            max_bytes=settings.api_max_body_bytes,
            timeout_seconds=settings.body_timeout_seconds,
            budget=BodyBudget(settings.api_caller_body_bytes, settings.api_all_body_bytes),
        )
        ports = Ports(
            operations=await stack.enter_async_context(operations.serve(settings.operations_host, settings.operations_port)),
            webhooks=await stack.enter_async_context(
                serve(public, settings.webhooks_host, settings.webhooks_port, shutdown_seconds=settings.shutdown_seconds)
            ),
            api=await stack.enter_async_context(
                serve(private, settings.api_host, settings.api_port, shutdown_seconds=settings.shutdown_seconds)
            ),
        )
        stack.callback(streams.leave)
        stack.callback(turns.leave, max(0, settings.shutdown_seconds - _LAST_WORDS_SECONDS))
        log.info("gateway.started", api=ports.api, webhooks=ports.webhooks, operations=ports.operations)
        yield ports


def _routers(
    settings: GatewaySettings,
    bus: Client,
    store: StoreClient,
    turns: Turns,
    hub: SubjectHub,
    profiles: ProfileCache,
    streams: OpenStreams,
) -> list[APIRouter]:
    """Build the routes of the API, apart from health."""
    js = bus.jetstream()
    keys = IdempotencyKeys(js)
    calls = Calls(
        profiles,
        turns,
        keys,
        store,
        answer_timeout_seconds=settings.answer_timeout_seconds,
        heartbeat_seconds=settings.heartbeat_seconds,
    )
    sessions = SessionsService(profiles, turns, keys, store, command_wait_seconds=settings.command_wait_seconds)
    responses = ResponseRecords(js, "resp")
    desk = AnswerDesk(store, profiles, turns.post)
    return [
        openai_router(ChatService(calls), profiles),
        responses_router(ResponsesService(calls, responses)),
        runs_router(RunsService(calls, turns, sessions, responses, ResponseRecords(js, "run"), desk)),
        sessions_router(sessions),
        approvals_router(sessions, desk),
        conversations_router(sessions, ConversationDesk(store, WaitingMessages(js).count), profiles, turns.post),
        files_router(sessions, store),
        jobs_router(jobs_client(bus)),
        events_router(sessions, bus, js, hub, streams, heartbeat_seconds=settings.heartbeat_seconds),
    ]


async def _connect(settings: GatewaySettings, credentials: bus_door.BusCredentials, stack: AsyncExitStack) -> Client:
    bus = await bus_door.connect(settings.bus_url, credentials, name=_ROLE, inbox=subjects.service_inbox(_ROLE))

    async def close() -> None:
        try:
            # Draining waits for a server that may be away for good.
            async with asyncio.timeout(_DRAIN_SECONDS):
                await bus.drain()
        except (NatsError, TimeoutError):
            await bus.close()

    stack.push_async_callback(close)
    return bus


@asynccontextmanager
async def _background(*work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run what never ends while the context lasts."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in work]
        yield
        for task in tasks:
            task.cancel()


async def _main(settings: GatewaySettings) -> None:
    async with running(settings):
        # What is there now stays for good. Looking through all of it is a pause of 35 to 50 ms for every call in flight.
        gc.collect()
        gc.freeze()
        await asyncio.Event().wait()


def main() -> None:
    """Run the gateway."""
    try:
        settings = GatewaySettings()
    except ValidationError as error:
        sys.exit(f"gateway: {explain(error)}")
    configure_logging(_ROLE, settings.log_level)
    configure_tracing(_ROLE, settings.trace_endpoint)
    try:
        lifecycle.run(lambda: _main(settings), loop_factory=uvloop.new_event_loop)
    except (HermesError, OSError) as error:
        sys.exit(f"gateway: {error}")
