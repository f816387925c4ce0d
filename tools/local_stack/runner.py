"""Plays the operator's part without a cluster: a wake becomes an epoch, a consumer, credentials, sandboxd and an agent."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from hermes_contracts import agent_config, store_api, subjects
from hermes_contracts.agent_config import AgentConfig
from hermes_contracts.crd.profile import ProfileSpec
from hermes_contracts.envelopes import Drain, Route, Wake
from hermes_contracts.errors import HermesError
from hermes_operator.build.facts import Epoch, HostAddress, Installation
from hermes_operator.build.secret import agent_config as session_config
from hermes_operator.bus import BusDoor
from hermes_operator.epochs import raise_epoch
from hermes_service import signing
from hermes_service.rpc import service_store_client
from local_stack.processes import Process
from local_stack.stack import NAMESPACE, SOURCES, Stack

_SWEEP_SECONDS = 1.0


@dataclass
class LocalSession:
    """An awake session: its epoch and its two processes."""

    route: Route
    epoch: int
    sandbox: Process
    agent: Process
    socket: Path
    state: str = ""


class LocalRunner:
    """Keeps an agent for every session that has something to do, until it has been idle long enough."""

    def __init__(self, stack: Stack, *, idle_seconds: float | None = None) -> None:
        self._stack = stack
        self._idle_seconds = idle_seconds
        self._store = service_store_client(stack.operator_bus, "operator")
        self._public_key = signing.public_key(stack.signing_seed)
        self._door = BusDoor(stack.operator_bus, signing.Verifier(self._public_key))
        self._dirty: dict[str, Route] = {}
        self._changed = asyncio.Event()
        self.sessions: dict[str, LocalSession] = {}
        self._idle_since: dict[str, float] = {}

    async def run(self) -> None:
        """Watch and start until cancelled; leaves no process behind."""
        bus = self._stack.operator_bus
        await bus.subscribe(subjects.WAKE, cb=self._on_wake)
        await bus.subscribe("hermes.store.*.*.report", cb=self._on_report)
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_SWEEP_SECONDS):
                        await self._changed.wait()
                self._changed.clear()
                # Whatever is away comes back; the next pass sees what this one missed.
                with contextlib.suppress(NatsError, TimeoutError, HermesError):
                    await self._pass()
        finally:
            for session in list(self.sessions.values()):
                await self._stop(session)

    async def _pass(self) -> None:
        await self._sweep()
        for sid in list(self._dirty):
            await self._ensure(self._dirty[sid])
            del self._dirty[sid]
        await self._sleep_idle()

    async def _on_wake(self, message: Msg) -> None:
        route = Wake.model_validate_json(message.data).route
        self._dirty[route.sid] = route
        self._changed.set()

    async def _on_report(self, message: Msg) -> None:
        sid, epoch = message.subject.split(".")[2:4]
        report = store_api.ReportRequest.model_validate_json(message.data)
        session = self.sessions.get(sid)
        if session is None or session.epoch != int(epoch):
            return
        session.state = report.state
        if report.state is store_api.AgentState.IDLE:
            self._idle_since.setdefault(sid, time.monotonic())
        else:
            self._idle_since.pop(sid, None)

    async def _sweep(self) -> None:
        """Find sessions with pending messages whose wake was lost, and agents that died."""
        for sid in await self._door.pending_everywhere():
            alive = sid in self.sessions and self.sessions[sid].agent.running
            if sid in self._dirty or alive:
                continue
            arrival = await self._door.first_arrival(sid)
            if arrival is not None:
                self._dirty[sid] = arrival.route

    async def _ensure(self, route: Route) -> None:
        current = self.sessions.get(route.sid)
        if current is not None and current.agent.running:
            return
        if current is not None:
            await self._stop(current)
        epoch = await raise_epoch(self._store, route, current.epoch if current else 0)
        await self._door.make_consumer(route.sid, epoch)
        self.sessions[route.sid] = await self._start(route, epoch)

    async def _start(self, route: Route, epoch: int) -> LocalSession:
        stack, sid = self._stack, route.sid
        home = stack.folder / "sessions" / sid
        folder = home / str(epoch)
        # An emptyDir: gone with the pod. What keeps its files otherwise is the store.
        archive = self._spec(route).sandbox.workspace.kind == "Archive"
        workspace = folder / "workspace" if archive else home / "workspace"
        folder.mkdir(parents=True)
        workspace.mkdir(exist_ok=True)
        socket = _short_socket()
        config = self._config(route, epoch, socket, workspace)
        (folder / agent_config.CONFIG_FILE).write_text(config.model_dump_json())
        (folder / agent_config.BUS_CREDENTIALS_FILE).write_text(stack.minter.bus_user(sid, epoch).render())
        token = stack.minter.models_token(sid=sid, epoch=epoch, namespace=NAMESPACE, profile=route.profile)
        (folder / agent_config.MODELS_TOKEN_FILE).write_text(token)
        sandboxd = Path(SOURCES[-1])
        sandbox = Process(
            "sandboxd",
            [sys.executable, "-I", "-S", str(sandboxd), "--socket", str(socket), "--workspace", str(workspace)],
            folder,
            {"HOME": str(workspace)},
            cwd=workspace,
        )
        agent = Process(
            "agent",
            [sys.executable, "-m", "hermes_agent"],
            folder,
            {"PYTHONPATH": ":".join(SOURCES), "HERMES_SESSION_DIR": str(folder)},
        )
        await sandbox.start()
        await agent.start()
        return LocalSession(route, epoch, sandbox, agent, socket)

    def _spec(self, route: Route) -> ProfileSpec:
        return next(p.spec for p in self._stack.profiles if p.name == route.profile)

    def _config(self, route: Route, epoch: int, socket: Path, workspace: Path) -> AgentConfig:
        """Return what an agent of a pod would read, with the paths that it has here."""
        stack = self._stack
        spec = self._spec(route)
        installation = Installation(
            namespace=NAMESPACE,
            agent_image="",
            sandbox_image="",
            image_pull_policy="",
            image_pull_secrets=(),
            bus=HostAddress("127.0.0.1", (), stack.ports["nats"]),
            models=HostAddress("127.0.0.1", (), stack.ports["models"]),
            bus_url=stack.bus_url,
            models_url=stack.models_url,
            gateway_public_key=self._public_key,
        )
        start = Epoch(
            namespace=NAMESPACE,
            session=route.sid,
            session_uid=route.sid,
            sid=route.sid,
            epoch=epoch,
            profile_name=route.profile,
            profile=spec,
            idle_timeout_seconds=spec.idle_timeout_seconds,
            created_at=time.time(),
        )
        paths = {"socket_path": str(socket), "workspace_path": str(workspace)}
        return session_config(installation, start).model_copy(update=paths)

    async def _sleep_idle(self) -> None:
        if self._idle_seconds is None:
            return
        for sid, since in list(self._idle_since.items()):
            if time.monotonic() - since > self._idle_seconds and sid in self.sessions:
                await self.suspend(sid)

    async def suspend(self, sid: str) -> None:
        """Drain a session's agent and stop its processes; the next wake starts a new epoch."""
        session = self.sessions[sid]
        order = Drain().model_dump_json().encode()
        await self._stack.operator_bus.publish(subjects.control_epoch(sid, session.epoch), order)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(20):
                await session.agent.wait()
        await self._stop(session)

    async def _stop(self, session: LocalSession) -> None:
        await session.agent.stop()
        await session.sandbox.stop()
        shutil.rmtree(session.socket.parent, ignore_errors=True)
        self._idle_since.pop(session.route.sid, None)


def _short_socket() -> Path:
    """A Unix socket's path holds 107 bytes at most, less than the folder of a test may take."""
    return Path(tempfile.mkdtemp(prefix="hermes-")) / "exec.sock"


def describe(stack: Stack) -> str:
    """Return the addresses of a running stack as JSON."""
    return json.dumps({"api": stack.api_url, "webhooks": stack.webhooks_url, "apiKey": stack.api_key})
