"""A session whose turns are handed to a program: the real runner and sandboxd, a scripted model, a store in memory."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from hermes_agent.codex.turn import CodexTurns
from hermes_agent.loop.limits import Limits, RetryPolicy
from hermes_agent.loop.outcome import EndReason, Outcome
from hermes_agent.loop.ports import DeltaKind
from hermes_agent.loop.run import TurnRunner
from hermes_agent.stop import StopSignal
from hermes_agent.store_port import Rep, Req, Store
from hermes_agent.testing.model import ScriptedModel
from hermes_agent.testing.store import FakeStore
from hermes_agent.tools.executor import Toolbox
from hermes_agent.tools.registry import tools_of
from hermes_agent.tools.sandbox_adapter import SandboxAdapter
from hermes_contracts.agent_config import AgentConfig, ApprovalsConfig, CodexConfig
from hermes_contracts.conversation import Message, ToolResultPart, Usage
from hermes_contracts.envelopes import Inbound
from hermes_contracts.names import RoutingKey, conversation_id, session_id
from hermes_contracts.store_api import OPEN_TURN, SETTLED, AppendRequest, CommitRequest, Method, OpenTurnRequest

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests" / "fakes" / "codex_program.py"
SID = session_id("uid", "helper", RoutingKey(channel="api", chat="codex"))
CONVERSATION = conversation_id("codex")
QUICK = Limits(retry=RetryPolicy(attempts=2, unreachable_attempts=2, base_seconds=0.001, cap_seconds=0.01))


@dataclass
class Deltas:
    """Keeps what was streamed."""

    pieces: list[tuple[str, str]] = field(default_factory=list)

    def emit(self, kind: DeltaKind, *, text: str = "", tool: str = "", call_id: str = "") -> None:
        del call_id
        self.pieces.append((kind, text or tool))

    def text(self) -> str:
        return "".join(text for kind, text in self.pieces if kind == "text")


class Counting:
    """A store that notes the usage of each step."""

    def __init__(self, store: Store, used: list[Usage], answers: asyncio.Event) -> None:
        self._store = store
        self._used = used
        self._answers = answers

    async def call(self, method: Method[Req, Rep], request: Req) -> Rep:
        if isinstance(request, AppendRequest | CommitRequest):
            self._used.append(request.usage)
        reply = await self._store.call(method, request)
        await self._answers.wait()
        return reply


@dataclass
class CodexScene:
    """`send` runs a message to its end; `restart` loses all memory of the agent, and the sandbox's processes with it."""

    socket: Path
    workspace: Path
    model: ScriptedModel
    command: tuple[str, ...] = (sys.executable, str(PROGRAM))
    store: FakeStore = field(default_factory=FakeStore)
    deltas: Deltas = field(default_factory=Deltas)
    limits: Limits = QUICK
    approvals: ApprovalsConfig = field(default_factory=ApprovalsConfig)
    runner: TurnRunner | None = None
    used: list[Usage] = field(default_factory=list)
    """What each step of all turns carried."""
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    """While it is clear the store writes and does not say so."""

    def __post_init__(self) -> None:
        self.answers.set()

    def faulty(self, fault: str) -> None:
        """Have the program misbehave from now on."""
        self.command = (sys.executable, str(PROGRAM), f"--fault={fault}")
        self.runner = None

    def limit(self, **changes: object) -> None:
        self.limits = replace(self.limits, **changes)  # type: ignore[arg-type]

    def restart(self) -> None:
        self.runner = None

    def _runner(self) -> TurnRunner:
        if self.runner is None:
            config = AgentConfig(
                sid=SID, epoch=1, namespace="team", session_name="helper-x", profile="helper", bus_url="nats://x",
                models_url="http://x", gateway_public_key="U", persona="You are Hermes, terse.", model="scripted",
                toolsets=("terminal", "file"), max_iterations=20, max_turn_seconds=60, idle_timeout_seconds=60,
                socket_path=str(self.socket), approvals=self.approvals, codex=CodexConfig(command=self.command),
                context_files=False,
            )  # fmt: skip
            assert config.codex is not None
            store, tools = Counting(self.store.client(1), self.used, self.answers), tools_of(config.toolsets)
            toolbox = Toolbox(tools, SandboxAdapter(str(self.socket)))

            async def window() -> int:
                return 100_000

            turns = CodexTurns(config, config.codex, store, self.model, window, toolbox, self.limits, self.deltas)
            self.runner = TurnRunner(config, store, turns, tools, self.limits, by_hand=turns)
        return self.runner

    async def send(self, text: str, update: str = "u1", stop: StopSignal | None = None, **facts: object) -> Outcome:
        message = Inbound.model_validate(
            {
                "sid": SID, "conversation": CONVERSATION, "channel": "api", "account": "k", "update_id": update,
                "owner": "o", "text": text, "received_at": 0.0, **facts,
            }
        )  # fmt: skip
        runner = self._runner()
        request = OpenTurnRequest(inbound=message, first=runner.opening(message), ack_subject="$JS.ACK.x", stream_sequence=1)
        opened = await self.store.client(1).call(OPEN_TURN, request)
        if opened.state in SETTLED:
            commit = self.store.turn(update).commits[0]
            return Outcome(commit.outcome, EndReason(commit.reason), commit.reply)
        return await runner.run(message, opened, stop or StopSignal())

    @property
    def transcript(self) -> list[Message]:
        return self.store.transcript(CONVERSATION)

    def results(self) -> list[ToolResultPart]:
        return [part for message in self.transcript for part in message.parts if isinstance(part, ToolResultPart)]


@asynccontextmanager
async def codex_scene(folder: Path, model: ScriptedModel) -> AsyncIterator[CodexScene]:
    """Run a real sandboxd for one scene."""
    workspace, socket = folder / "workspace", folder / "exec.sock"
    workspace.mkdir()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", str(ROOT / "sandbox_image"),
        "--socket", str(socket), "--workspace", str(workspace),
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield CodexScene(socket, workspace, model)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
