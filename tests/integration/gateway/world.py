"""A store and an agent that follow a script, and what a story about the gateway needs."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import httpx
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.errors import KeyNotFoundError

from hermes_contracts import names, projection, subjects
from hermes_contracts.bus_permissions import Permissions, Role, service_permissions
from hermes_contracts.conversation import Message, Usage
from hermes_contracts.crd.channels import ChannelRules
from hermes_contracts.envelopes import Delta, Event, EventType, Inbound, Outbound, Route
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.projection import ProfileProjection
from hermes_contracts.store_api import (
    BeginDeliveryReply,
    BeginDeliveryRequest,
    CreateSessionRequest,
    Empty,
    FinishDeliveryRequest,
    GetTurnRequest,
    ListSessionsReply,
    ListSessionsRequest,
    OwnedSession,
    OwnedSessionRequest,
    PutCommandReply,
    PutCommandRequest,
    PutMediaRequest,
    StoredMessage,
    TranscriptReply,
    TranscriptRequest,
    Turn,
    TurnState,
)  # fmt: skip
from hermes_gateway.gateway.app import Ports, running
from hermes_gateway.gateway.settings import GatewaySettings
from hermes_service import signing
from hermes_service.bus_keys import BusKeys
from hermes_service.rpc import Caller, RpcServer
from local_stack.processes import Process, free_port, http_ok
from tests.integration.gateway.shelf import Shelf

ALICE, BOB, NARROW = "key-of-alice", "key-of-bob", "key-of-narrow"
ALICE_ELSEWHERE, ALICE_OTHER_PROFILE = "key-of-alice-elsewhere", "key-of-alice-other-profile"
WEBHOOK_SECRET = "a-secret-of-the-webhook"
EVERYTHING = Permissions((">",), (">",), "_INBOX.test")


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "condition did not become true in time"
        await asyncio.sleep(0.01)


@dataclass
class Script:
    """A store and an agent in one: answers each message by its text, and remembers everything."""

    bus: Client
    verifier: signing.Verifier
    turns: dict[tuple[str, str, str, str], Turn] = field(default_factory=dict)
    sessions: dict[str, tuple[Route, float]] = field(default_factory=dict)
    transcript: dict[str, list[StoredMessage]] = field(default_factory=dict)
    inbound: list[Inbound] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    wakes: list[str] = field(default_factory=list)
    commands: dict[tuple[str, str], str | None] = field(default_factory=dict)
    asked: list[PutCommandRequest] = field(default_factory=list)
    media: dict[tuple[str, str], bytes] = field(default_factory=dict)
    media_full: bool = False
    media_conflicts: int = 0
    deliveries: dict[str, BeginDeliveryReply] = field(default_factory=dict)
    finished: list[FinishDeliveryRequest] = field(default_factory=list)
    holders: list[str] = field(default_factory=list)
    attempting: dict[str, str] = field(default_factory=dict)
    """Holders of attempts whose end was not recorded."""
    released: asyncio.Event = field(default_factory=asyncio.Event)
    stop_result: str | None = "stopped"

    async def start(self) -> None:
        await self.bus.subscribe(subjects.WAKE, cb=self._note_wake)
        # A plain subscription stands in for the agents' consumers: the messages stay in their streams.
        await self.bus.subscribe("hermes.in.*.*", cb=self._receive)
        handlers = {
            "get_turn": self.get_turn, "get_session": self.get_session, "create_session": self.create_session,
            "list_sessions": self.list_sessions, "delete_session": self.delete_session, "transcript": self.get_transcript,
            "put_media": self.put_media, "put_command": self.put_command, "begin_delivery": self.begin_delivery,
            "finish_delivery": self.finish_delivery,
        }  # fmt: skip
        self.shelf = Shelf(self.owned)
        self.server = RpcServer(self.bus, {**handlers, **self.shelf.handlers()})  # type: ignore[dict-item]
        await self.server.start("store")
        await self.bus.flush()

    async def _note_wake(self, message: Msg) -> None:
        self.wakes.append(json.loads(message.data)["route"]["sid"])

    async def _receive(self, message: Msg) -> None:
        inbound = Inbound.model_validate_json(message.data)
        headers = dict(message.headers or {})
        route = Route.model_validate_json(headers["Hermes-Route"])
        assert self.verifier.verify(
            headers["Hermes-Signature"], message.subject, headers["Nats-Msg-Id"], headers["Hermes-Route"], message.data
        )
        assert route.sid == inbound.sid
        identity = (inbound.sid, inbound.channel, inbound.account, inbound.update_id)
        if identity in self.turns:
            return
        self.inbound.append(inbound)
        self.headers.append(headers)
        self.sessions[inbound.sid] = (route, time.time())
        turn_id = names.turn_id(*identity)
        self.turns[identity] = Turn(found=True, turn_id=turn_id, state=TurnState.RUNNING)
        await ScriptedTurn(self, inbound, identity, turn_id).run()

    async def get_turn(self, caller: Caller, request: GetTurnRequest) -> Turn:
        route = self.sessions.get(request.sid)
        if route and route[0].owner != request.owner:
            raise HermesError(ErrorCode.NOT_FOUND, "there is no such session")
        key = (request.sid, request.channel, request.account, request.update_id)
        return self.turns.get(key, Turn(found=False))

    def owned(self, sid: str, owner: str) -> Route:
        found = self.sessions.get(sid)
        if found is None or found[0].owner != owner:
            raise HermesError(ErrorCode.NOT_FOUND, f"there is no session {sid}")
        return found[0]

    def describe(self, sid: str) -> OwnedSession:
        route, at = self.sessions[sid]
        return OwnedSession(
            sid=sid, namespace=route.namespace, profile=route.profile, key=route.key.model_dump(), title="",
            created_at=at, last_activity=at, turns=0, running_turns=0, usage=Usage(),
        )  # fmt: skip

    async def get_session(self, caller: Caller, request: OwnedSessionRequest) -> OwnedSession:
        self.owned(request.sid, request.owner)
        return self.describe(request.sid)

    async def create_session(self, caller: Caller, request: CreateSessionRequest) -> OwnedSession:
        self.sessions.setdefault(request.route.sid, (request.route, time.time()))
        return self.describe(request.route.sid)

    async def list_sessions(self, caller: Caller, request: ListSessionsRequest) -> ListSessionsReply:
        mine = [
            self.describe(sid)
            for sid, (route, _) in self.sessions.items()
            if (route.owner, route.namespace) == (request.owner, request.namespace)
            and request.profile in (None, route.profile)
        ]
        mine.sort(key=lambda s: (s.last_activity, s.sid), reverse=True)
        page = [s for s in mine if request.before is None or (s.last_activity, s.sid) < tuple(request.before)]
        return ListSessionsReply(sessions=tuple(page[: request.limit]), more=len(page) > request.limit)

    async def delete_session(self, caller: Caller, request: OwnedSessionRequest) -> Empty:
        self.owned(request.sid, request.owner)
        del self.sessions[request.sid]
        return Empty()

    async def get_transcript(self, caller: Caller, request: TranscriptRequest) -> TranscriptReply:
        self.owned(request.sid, request.owner)
        after = [m for m in self.transcript.get(request.sid, []) if m.sequence > request.after]
        return TranscriptReply(messages=tuple(after[: request.limit]), more=len(after) > request.limit)

    async def put_media(self, caller: Caller, request: PutMediaRequest) -> Empty:
        if self.media_conflicts:
            self.media_conflicts -= 1
            raise HermesError(ErrorCode.CONFLICT, "put_media: go on at 0")
        if self.media_full:
            raise HermesError(ErrorCode.TOO_LARGE, "this session's pictures are over 256 MB")
        key = (request.sid, request.media_id)
        held = self.media.get(key, b"")
        assert request.offset in (0, len(held))
        self.media[key] = held[: request.offset] + base64.b64decode(request.data)
        if len(self.media[key]) == request.total:
            assert names.media_id(self.media[key]) == request.media_id
        return Empty()

    async def put_command(self, caller: Caller, request: PutCommandRequest) -> PutCommandReply:
        self.owned(request.sid, request.owner)
        key = (request.sid, request.update_id)
        if key in self.commands:
            self.commands[key] = self.stop_result
        else:
            self.commands[key] = None
            self.asked.append(request)
        return PutCommandReply(command_id=f"k-{request.update_id}", result=self.commands[key])

    async def begin_delivery(self, caller: Caller, request: BeginDeliveryRequest) -> BeginDeliveryReply:
        self.holders.append(request.holder)
        known = self.deliveries.get(request.delivery_id)
        if known is not None and known.state in ("delivered", "failed"):
            return BeginDeliveryReply(proceed=False, state=known.state, attempts=known.attempts)
        attempts = (known.attempts if known else 0) + 1
        begun = BeginDeliveryReply(proceed=True, state="attempting", attempts=attempts)
        self.deliveries[request.delivery_id] = begun
        holder = self.attempting.get(request.delivery_id)
        self.attempting[request.delivery_id] = request.holder
        return begun.model_copy(update={"uncertain": holder is not None})

    async def finish_delivery(self, caller: Caller, request: FinishDeliveryRequest) -> Empty:
        self.finished.append(request)
        self.attempting.pop(request.delivery_id, None)
        if request.outcome != "retry":
            known = self.deliveries[request.delivery_id]
            state = request.outcome
            self.deliveries[request.delivery_id] = BeginDeliveryReply(proceed=False, state=state, attempts=known.attempts)
        return Empty()

    async def settled(self, inbound: Inbound, turn: Turn) -> None:
        """A turn has its answer. Callers of the API read it themselves."""

    async def deliver(self, outbound: Outbound) -> None:
        js = self.bus.jetstream()
        subject = subjects.outbound(outbound.channel, outbound.sid)
        await js.publish(subject, outbound.model_dump_json().encode())


@dataclass
class ScriptedTurn:
    """One turn, by the first word of its text."""

    script: Script
    inbound: Inbound
    identity: tuple[str, str, str, str]
    turn_id: str
    attempt: int = 1
    sequence: int = 0

    async def run(self) -> None:
        word = (self.inbound.text.split() or ["echo"])[0].lower()
        act: Callable[[], Awaitable[None]] = getattr(self, f"do_{word}", self.do_echo)
        await act()

    async def do_echo(self) -> None:
        await self.event(EventType.TURN_STARTED)
        for piece in ("You ", "said: ", self.inbound.text):
            await self.text(piece)
        await self.settle(f"You said: {self.inbound.text}")

    async def do_fail(self) -> None:
        await self.event(EventType.TURN_STARTED)
        await self.settle("The model did not answer.", TurnState.FAILED, "model_error")

    async def do_silent(self) -> None:
        await self.settle("Nobody told you.", announce=False)

    async def do_wait(self) -> None:
        await self.event(EventType.TURN_STARTED)
        await self.text("Let me ")
        await self.script.released.wait()
        await self.text("think.")
        await self.settle("Let me think.")

    async def do_grow(self) -> None:
        await self.event(EventType.TURN_STARTED)
        said = 0
        while not self.script.released.is_set():
            said += 1
            await self.text(f"{said} ")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await self.script.released.wait()
        await self.settle(" ".join(str(number) for number in range(1, said + 1)))

    async def do_never(self) -> None:
        await self.event(EventType.TURN_STARTED)

    async def do_tool(self) -> None:
        await self.event(EventType.TURN_STARTED)
        await self.text("I look.")
        for kind in ("tool_started", "tool_finished"):
            await self.delta(Delta(turn_id=self.turn_id, attempt=1, sequence=0, kind=kind, tool="terminal", call_id="c1"))
        await self.text("It is ")
        await self.text("there.")
        await self.settle("It is there.")

    async def do_lossy(self) -> None:
        await self.event(EventType.TURN_STARTED)
        await self.text("One ")
        self.sequence += 1
        await self.text("three")
        await self.settle("One two three")

    async def do_crash(self) -> None:
        await self.event(EventType.TURN_STARTED)
        await self.text("First try")
        self.attempt, self.sequence = 2, 0
        await self.text("Second ")
        await self.text("try")
        await self.settle("Second try")

    async def do_repeat(self) -> None:
        await self.event(EventType.TURN_STARTED)
        await self.text("Hello")
        await self.say("notice", "The model is overloaded; I ask another one.")
        await self.say("restart", "")
        await self.text("Hel")
        await self.text("lo there")
        await self.settle("Hello there")

    async def do_otherwise(self) -> None:
        await self.event(EventType.TURN_STARTED)
        await self.text("Hello")
        await self.say("restart", "")
        await self.text("Good")
        await self.text("bye")
        await self.settle("Goodbye")

    async def say(self, kind: Literal["notice", "restart"], text: str) -> None:
        await self.delta(Delta(turn_id=self.turn_id, attempt=1, sequence=0, kind=kind, text=text))

    async def text(self, text: str) -> None:
        await self.delta(Delta(turn_id=self.turn_id, attempt=1, sequence=0, kind="text", text=text))

    async def delta(self, delta: Delta) -> None:
        self.sequence += 1
        numbered = delta.model_copy(update={"attempt": self.attempt, "sequence": self.sequence})
        await self.script.bus.publish(subjects.delta(self.inbound.sid, 1), numbered.model_dump_json().encode())

    async def event(self, kind: EventType, **data: object) -> None:
        event = Event(
            sid=self.inbound.sid, type=kind, conversation=self.inbound.conversation, turn_id=self.turn_id,
            account=self.inbound.account, update_id=self.inbound.update_id, at=time.time(), data=data,
        )  # fmt: skip
        await self.script.bus.jetstream().publish(subjects.event(self.inbound.sid), event.model_dump_json().encode())

    async def settle(
        self, reply: str, state: TurnState = TurnState.DONE, reason: str = "stop", *, announce: bool = True
    ) -> None:
        usage = Usage(input_tokens=10, output_tokens=5, cached_input_tokens=4, model_calls=1, cost_nano_usd=1_250_000)
        self.script.turns[self.identity] = Turn(
            found=True, turn_id=self.turn_id, state=state, reply=reply, reason=reason, usage=usage
        )
        log = self.script.transcript.setdefault(self.inbound.sid, [])
        for message in (Message.user(self.inbound.text), Message.assistant(reply)):
            log.append(StoredMessage(sequence=len(log) + 1, turn_id=self.turn_id, step=0, message=message))
        if announce:
            kind = EventType.TURN_DONE if state is TurnState.DONE else EventType.TURN_FAILED
            await self.event(kind, reply=reply, truncated=False, reason=reason, usage=usage.model_dump())
        await self.script.settled(self.inbound, self.script.turns[self.identity])


@dataclass
class World:
    """Everything a story needs."""

    folder: Path
    bus_url: str
    keys: BusKeys
    nats: Process
    admin: Client
    script: Script
    ports: Ports
    settings: GatewaySettings
    exits: AsyncExitStack
    first: AsyncExitStack

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.ports.api}"

    @property
    def webhooks(self) -> str:
        return f"http://127.0.0.1:{self.ports.webhooks}"

    def http(self, key: str | None = ALICE) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.AsyncClient(base_url=self.api, headers=headers, timeout=20)

    async def profile(
        self,
        name: str,
        *,
        ready: bool = True,
        message: str = "",
        channels: Sequence[Mapping[str, object]] = (),
        age: int = 0,
    ) -> None:
        found = ProfileProjection(
            namespace="team", namespace_uid="uid-of-team", name=name, model="m", provider="scripted", ready=ready,
            message=message, created_at=1_700_000_000 - age,
            channels=tuple(ChannelRules.model_validate({"channel": "slack", "account": "acme", **c}) for c in channels),
        )  # fmt: skip
        bucket = await self.admin.jetstream().key_value(subjects.PROFILES_BUCKET)
        await bucket.put(projection.key("team", name), found.model_dump_json().encode())

    async def another_gateway(self, **changes: object) -> Ports:
        settings = self.settings.model_copy(update=changes)
        return await self.exits.enter_async_context(running(settings))

    async def gateway_process(self) -> Process:
        """Start a gateway in a process of its own, which can be killed."""
        operations = free_port()
        files = ("bus_credentials_file", "api_keys_file", "webhooks_file", "slack_file", "signing_seed_file")
        known = self.settings.model_dump()
        values = {f"HERMES_{name.upper()}": str(known[name]) for name in ("bus_url", *files)}
        ports = {f"HERMES_{name}_PORT": str(free_port()) for name in ("API", "WEBHOOKS")}
        hosts = {f"HERMES_{name}_HOST": "127.0.0.1" for name in ("API", "WEBHOOKS", "OPERATIONS")}
        path = ":".join(path for path in sys.path if path)
        environment = {**values, **ports, **hosts, "HERMES_OPERATIONS_PORT": str(operations), "PYTHONPATH": path}
        process = Process("gateway", [sys.executable, "-m", "hermes_gateway", "--role", "gateway"], self.folder, environment)
        await process.start()
        self.exits.push_async_callback(process.stop)
        await process.until(lambda: http_ok(operations, "/readyz"))
        return process

    async def leases(self) -> dict[str, int]:
        """Return how many partitions each replica holds now."""
        bucket = await self.admin.jetstream().key_value(subjects.LEASES_BUCKET)
        held: dict[str, int] = {}
        for partition in range(subjects.OUT_PARTITIONS):
            with contextlib.suppress(KeyNotFoundError):
                holder = ((await bucket.get(f"out-{partition}")).value or b"").decode()
                held[holder] = held.get(holder, 0) + 1
        return held

    async def leases_shared(self, *shares: int, seconds: float) -> None:
        """Wait until all partitions are held, in these shares."""
        deadline = time.monotonic() + seconds
        while sorted(shares) != sorted((held := await self.leases()).values()):
            assert time.monotonic() < deadline, held
            await asyncio.sleep(0.05)

    async def retire_first_gateway(self) -> None:
        await self.first.aclose()

    async def pending(self) -> int:
        js = self.admin.jetstream()
        return sum([(await js.stream_info(name)).state.messages for name in subjects.IN_STREAMS])


def key_record(text: str, owner: str, profiles: list[str], scopes: list[str]) -> dict[str, object]:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"id": owner, "sha256": digest, "owner": owner, "namespace": "team", "profiles": profiles, "scopes": scopes}


def write_files(folder: Path, keys: BusKeys, seed: str, reply_url: str) -> None:
    credentials = keys.user("gateway", service_permissions(Role.GATEWAY))
    (folder / "bus.creds").write_text(credentials.render())
    (folder / "seed").write_text(seed)
    everyone = [
        key_record(ALICE, "alice", ["helper", "sleepy", "missing"], ["chat", "sessions", "jobs"]),
        key_record(BOB, "bob", ["helper"], ["chat", "sessions"]),
        key_record(NARROW, "narrow", ["helper"], ["sessions"]),
        {**key_record(ALICE_ELSEWHERE, "alice", ["helper"], ["chat", "sessions"]), "namespace": "elsewhere"},
        key_record(ALICE_OTHER_PROFILE, "alice", ["private"], ["chat", "sessions"]),
    ]
    (folder / "keys.json").write_text(json.dumps({"keys": everyone}))
    base = {"namespace": "team", "profile": "helper", "secret": WEBHOOK_SECRET}
    routes = [{**base, "name": "alerts", "reply_url": reply_url}, {**base, "name": "quiet"}]
    (folder / "webhooks.json").write_text(json.dumps({"routes": routes}))
