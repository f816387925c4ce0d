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
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import NotFoundError

from hermes_contracts import agent_config, store_api, subjects
from hermes_contracts.agent_config import AgentConfig
from hermes_contracts.envelopes import HEADER_ROUTE, Drain, Route, Wake
from hermes_contracts.errors import ErrorCode, HermesError
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
        js = self._stack.operator_bus.jetstream()
        for stream in subjects.IN_STREAMS:
            info = await js.stream_info(stream, subjects_filter="hermes.in.>")
            for subject in info.state.subjects or {}:
                sid = subjects.sid_of_inbound(subject)
                alive = sid in self.sessions and self.sessions[sid].agent.running
                if sid in self._dirty or alive:
                    continue
                message = await js.get_last_msg(stream, subject)
                self._dirty[sid] = Route.model_validate_json((message.headers or {})[HEADER_ROUTE])

    async def _ensure(self, route: Route) -> None:
        current = self.sessions.get(route.sid)
        if current is not None and current.agent.running:
            return
        if current is not None:
            await self._stop(current)
        epoch = await self._raise_epoch(route, current.epoch if current else 0)
        await self._make_consumer(route.sid, epoch)
        self.sessions[route.sid] = await self._start(route, epoch)

    async def _raise_epoch(self, route: Route, expected: int) -> int:
        try:
            reply = await self._store.call(
                store_api.RAISE_EPOCH, store_api.RaiseEpochRequest(route=route, expected=expected)
            )
        except HermesError as error:
            if error.code is not ErrorCode.CONFLICT:
                raise
            found = await self._store.call(store_api.SUMMARIES, store_api.SessionIdsRequest(sids=(route.sid,)))
            return await self._raise_epoch(route, found.sessions[0].epoch)
        return reply.epoch

    async def _make_consumer(self, sid: str, epoch: int) -> None:
        js, stream = self._stack.operator_bus.jetstream(), subjects.in_stream(sid)
        for older in range(max(1, epoch - 3), epoch):
            with contextlib.suppress(NotFoundError):
                await js.delete_consumer(stream, subjects.consumer(sid, older))
        await js.add_consumer(
            stream,
            ConsumerConfig(
                durable_name=subjects.consumer(sid, epoch),
                filter_subject=subjects.inbound(sid),
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=30,
                max_ack_pending=1,
                max_deliver=-1,
                inactive_threshold=3600,
            ),
        )

    async def _start(self, route: Route, epoch: int) -> LocalSession:
        stack, sid = self._stack, route.sid
        home = stack.folder / "sessions" / sid
        workspace, folder = home / "workspace", home / str(epoch)
        workspace.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        socket = _short_socket()
        config = self._config(route, epoch, socket, workspace)
        (folder / agent_config.CONFIG_FILE).write_text(config.model_dump_json())
        (folder / agent_config.BUS_CREDENTIALS_FILE).write_text(stack.minter.bus_user(sid, epoch).render())
        token = stack.minter.models_token(sid=sid, epoch=epoch, namespace=NAMESPACE, profile=route.profile)
        (folder / agent_config.MODELS_TOKEN_FILE).write_text(token)
        sandboxd = Path(SOURCES[-1]) / "sandboxd.py"
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

    def _config(self, route: Route, epoch: int, socket: Path, workspace: Path) -> AgentConfig:
        spec = next(p.spec for p in self._stack.profiles if p.name == route.profile)
        return AgentConfig(
            sid=route.sid,
            epoch=epoch,
            namespace=NAMESPACE,
            session_name=route.sid,
            profile=route.profile,
            bus_url=self._stack.bus_url,
            models_url=self._stack.models_url,
            gateway_public_key=signing.public_key(self._stack.signing_seed),
            socket_path=str(socket),
            workspace_path=str(workspace),
            persona=spec.persona,
            model=spec.model.name,
            toolsets=spec.toolsets,
            max_iterations=spec.budgets.max_iterations,
            max_turn_seconds=spec.budgets.max_turn_seconds,
            max_output_tokens=spec.model.max_output_tokens,
            idle_timeout_seconds=spec.idle_timeout_seconds,
            created_at=time.time(),
        )

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
