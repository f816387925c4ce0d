"""A real NATS with JWT authentication, a store in memory behind its real subjects, a models service of one page."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig, DiscardPolicy, RetentionPolicy, StorageType, StreamConfig

from hermes_agent.model.base import ModelCall
from hermes_agent.testing.model import ScriptedModel
from hermes_agent.testing.store import FakeStore
from hermes_contracts import subjects
from hermes_contracts.agent_config import AgentConfig
from hermes_contracts.bus_permissions import Permissions, agent_permissions
from hermes_contracts.envelopes import (
    HEADER_MESSAGE_ID,
    HEADER_ROUTE,
    HEADER_SIGNATURE,
    ControlHint,
    Delta,
    Inbound,
    Route,
    message_id,
)
from hermes_contracts.model_api import ModelInfo
from hermes_contracts.names import RoutingKey, conversation_id, session_id
from hermes_contracts.store_api import Command, CommandKind
from hermes_service.bus_keys import BusKeys
from hermes_service.signing import Signer, new_signing_seed, public_key

KEY = RoutingKey(channel="api", chat="test")
SID = session_id("11111111-2222-3333-4444-555555555555", "helper", KEY)
CONVERSATION = conversation_id("main")
EVERYTHING = Permissions(publish=(">",), subscribe=(">",), inbox="_INBOX.test")
AGENT_STORE_METHODS = (
    "report", "open_turn", "load", "freeze_prompt", "append", "commit", "take_commands", "finish_command", "compact",
    "set_title", "ask_approval", "get_approval",
)  # fmt: skip


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


async def until(condition: Callable[[], bool], what: str, seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"timed out waiting until {what}"
        await asyncio.sleep(0.005)


@dataclass
class NatsServer:
    folder: Path
    config: str
    port: int = field(default_factory=free_port)
    process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "nats.log").read_text()

    async def start(self) -> None:
        file = self.folder / "nats.conf"
        file.write_text(
            f'listen: "127.0.0.1:{self.port}"\nlog_file: "{self.folder}/nats.log"\n'
            f'jetstream {{ store_dir: "{self.folder}/js", sync_interval: always }}\n{self.config}'
        )
        binary = shutil.which("nats-server", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        assert binary, "nats-server is not installed"
        self.process = await asyncio.create_subprocess_exec(
            binary, "-c", str(file), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )

        def listening() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0

        await until(listening, "NATS listens")

    async def stop(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


@dataclass
class AgentProcess:
    process: asyncio.subprocess.Process
    lines: list[str] = field(default_factory=list)
    reader: asyncio.Task[None] | None = None

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(line.decode(errors="replace").rstrip())

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)

    def events(self) -> list[str]:
        return [json.loads(line).get("event", "") for line in self.lines if line.startswith("{")]


@dataclass
class World:
    nats: NatsServer
    keys: BusKeys
    admin: Client
    store: FakeStore
    model: ScriptedModel
    models_url: str
    folder: Path
    seed: str = field(default_factory=new_signing_seed)
    tokens: list[str] = field(default_factory=list)
    deltas: list[Delta] = field(default_factory=list)
    agents: list[AgentProcess] = field(default_factory=list)
    sent: int = 0

    def config(self, epoch: int = 1, **changes: object) -> AgentConfig:
        facts: dict[str, object] = {
            "sid": SID, "epoch": epoch, "namespace": "team", "session_name": "helper-x", "profile": "helper",
            "bus_url": self.nats.url, "models_url": self.models_url, "gateway_public_key": public_key(self.seed),
            "socket_path": str(self.folder / "exec.sock"), "persona": "", "model": "scripted",
            "toolsets": ("terminal", "file"), "max_iterations": 20, "max_turn_seconds": 60, "idle_timeout_seconds": 60,
        }  # fmt: skip
        return AgentConfig.model_validate({**facts, **changes})

    async def raise_epoch(self, epoch: int) -> None:
        js = self.admin.jetstream()
        for old in range(1, epoch):
            with contextlib.suppress(Exception):
                await js.delete_consumer(subjects.in_stream(SID), subjects.consumer(SID, old))
        self.store.epoch = epoch
        await js.add_consumer(
            subjects.in_stream(SID),
            ConsumerConfig(
                durable_name=subjects.consumer(SID, epoch), filter_subject=subjects.inbound(SID),
                ack_policy=AckPolicy.EXPLICIT, ack_wait=30, max_deliver=-1, max_ack_pending=1,
            ),
        )  # fmt: skip

    def session_folder(self, config: AgentConfig, *, lifetime_seconds: int | None = None) -> Path:
        folder = self.folder / f"session-{config.epoch}"
        folder.mkdir(exist_ok=True)
        permissions = agent_permissions(SID, config.epoch)
        user = self.keys.user("agent", permissions, lifetime_seconds=lifetime_seconds)
        (folder / "session.json").write_text(config.model_dump_json())
        (folder / "bus.creds").write_text(user.render())
        (folder / "models.token").write_text("token-1\n")
        return folder

    async def start_agent(self, epoch: int = 1, *, folder: Path | None = None, **changes: object) -> AgentProcess:
        folder = folder or self.session_folder(self.config(epoch, **changes))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-W", "error", "-m", "hermes_agent",
            env={"HERMES_SESSION_DIR": str(folder), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        agent = AgentProcess(process)
        self.agents.append(agent)
        agent.reader = asyncio.ensure_future(agent.read())
        return agent

    async def send(self, text: str, *, signed: bool = True, sid: str = SID) -> str:
        self.sent += 1
        update = f"u{self.sent}"
        inbound = Inbound(
            sid=sid, conversation=CONVERSATION, channel="api", account="key-1", update_id=update, owner="someone",
            text=text, received_at=time.time(),
        )  # fmt: skip
        subject, identity = subjects.inbound(SID), message_id(SID, "api", "key-1", update)
        route = Route(sid=SID, namespace="team", profile="helper", owner="someone", key=KEY).model_dump_json()
        body = inbound.model_dump_json().encode()
        signature = Signer(self.seed).sign(subject, identity, route, body) if signed else "bm90aGluZw=="
        headers = {HEADER_MESSAGE_ID: identity, HEADER_ROUTE: route, HEADER_SIGNATURE: signature}
        await self.admin.jetstream().publish(subject, body, headers=headers)
        return update

    async def command(self, command_id: str, kind: CommandKind, **arguments: str) -> None:
        """Keep a command, as the gateway does, and hint at it."""
        self.store.commands[command_id] = Command(
            command_id=command_id, kind=kind, arguments=arguments, created_at=time.time()
        )
        await self.hint()

    async def hint(self) -> None:
        await self.admin.publish(subjects.control(SID), ControlHint().model_dump_json().encode())

    async def pending(self) -> int:
        info = await self.admin.jetstream().stream_info(subjects.in_stream(SID))
        return int(info.state.messages)

    def settled(self, update: str) -> bool:
        return any(t.inbound.update_id == update and t.commits for t in self.store.turns.values())

    def denied(self) -> list[str]:
        return [line for line in self.nats.log.splitlines() if "iolation" in line]


class ModelsPage:
    """`POST /v1/stream` and `GET /v1/model` by hand, in front of a ScriptedModel."""

    def __init__(self, model: ScriptedModel) -> None:
        self.model = model
        self.info = ModelInfo(
            provider="scripted", model="scripted", api_mode="scripted", context_window=8_000, max_output_tokens=1_000,
            vision=False, reasoning=False, prompt_cache=False,
        )  # fmt: skip
        self.tokens: list[str] = []
        self.server: asyncio.Server | None = None
        self.connections: set[asyncio.Task[None]] = set()

    async def stop(self) -> None:
        assert self.server is not None
        self.server.close()
        for task in self.connections:
            task.cancel()
        await asyncio.gather(*self.connections, return_exceptions=True)

    async def start(self) -> str:
        self.server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.add(asyncio.ensure_future(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while True:
                    await self._answer(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        self.tokens.append(head.split("authorization: bearer ")[1].split("\r\n")[0])
        if head.startswith("get /v1/model?purpose="):
            data = self.info.model_dump_json().encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(data), data))
            return
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        body = await reader.readexactly(length)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n")
        async for event in self.model.stream(_Raw(body)):
            line = event.model_dump_json().encode() + b"\n"
            writer.write(b"%x\r\n%b\r\n" % (len(line), line))
            await writer.drain()
        writer.write(b"0\r\n\r\n")


class _Raw(ModelCall):
    def __init__(self, data: bytes) -> None:
        object.__setattr__(self, "_data", data)

    def body(self) -> bytes:
        return bytes(self.__dict__["_data"])


def in_stream_config() -> StreamConfig:
    return StreamConfig(
        name=subjects.in_stream(SID), subjects=[subjects.inbound(SID)], retention=RetentionPolicy.WORK_QUEUE,
        storage=StorageType.FILE, discard=DiscardPolicy.NEW,
    )  # fmt: skip
