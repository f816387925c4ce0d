"""A session without processes: the real loop between a scripted model, a store in memory and a fake sandbox."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from hermes_agent.approvals.gate import Gate
from hermes_agent.approvals.judge import Judge
from hermes_agent.compression.compaction import Compactor
from hermes_agent.loop.limits import Limits, RetryPolicy
from hermes_agent.loop.outcome import EndReason, Outcome
from hermes_agent.loop.ports import Compaction, DeltaKind
from hermes_agent.loop.run import TurnRunner
from hermes_agent.loop.sight import Describer
from hermes_agent.loop.turn import TurnLoop
from hermes_agent.prompt.builder import SessionPrompts
from hermes_agent.prompt.directory_hints import DirectoryHints
from hermes_agent.stop import StopSignal
from hermes_agent.testing.model import ScriptedModel
from hermes_agent.testing.sandbox import FakeSandbox
from hermes_agent.testing.store import FakeStore
from hermes_agent.tools.executor import Toolbox
from hermes_agent.tools.offers import Offers
from hermes_agent.tools.registry import tools_of
from hermes_contracts.agent_config import AgentConfig, ApprovalsConfig
from hermes_contracts.conversation import Message, ToolResultPart
from hermes_contracts.envelopes import Inbound
from hermes_contracts.model_api import ModelInfo, Purpose
from hermes_contracts.names import RoutingKey, conversation_id, session_id
from hermes_contracts.store_api import OPEN_TURN, SETTLED, OpenTurnRequest

SID = session_id("uid", "helper", RoutingKey(channel="api", chat="test"))
CONVERSATION = conversation_id("main")
QUICK = Limits(
    retry=RetryPolicy(attempts=3, unreachable_attempts=3, base_seconds=0.001, cap_seconds=0.01), empty_pause_seconds=0.0
)

CONFIG = AgentConfig(
    sid=SID, epoch=1, namespace="team", session_name="helper-x", profile="helper", bus_url="nats://x", models_url="http://x",
    gateway_public_key="U", persona="", model="scripted", toolsets=("terminal", "file"), max_iterations=20,
    max_turn_seconds=60, idle_timeout_seconds=60,
)  # fmt: skip


@dataclass
class Deltas:
    """Keeps what was streamed."""

    pieces: list[tuple[str, str]] = field(default_factory=list)

    def emit(self, kind: DeltaKind, *, text: str = "", tool: str = "", call_id: str = "") -> None:
        self.pieces.append((kind, text or tool))


def inbound(update: str = "u1", text: str = "hello", **changes: object) -> Inbound:
    facts: dict[str, object] = {
        "sid": SID, "conversation": CONVERSATION, "channel": "api", "account": "k", "update_id": update, "owner": "o",
        "text": text, "received_at": 0.0,
    }  # fmt: skip
    return Inbound.model_validate({**facts, **changes})


@dataclass
class Scene:
    """`send` runs a message to its end, in a process that may be replaced by `restart`."""

    model: ScriptedModel
    store: FakeStore = field(default_factory=FakeStore)
    sandbox: FakeSandbox = field(default_factory=FakeSandbox)
    limits: Limits = QUICK
    epoch: int = 1
    deltas: Deltas = field(default_factory=Deltas)
    runner: TurnRunner | None = None
    today: datetime = datetime(2026, 11, 30, tzinfo=UTC)
    compaction: Callable[[Scene], Compaction] | None = None
    """Makes the compaction of a new process."""
    reads_workspace: bool = False
    """Prompts and results carry what the sandbox's files say."""
    firsts: list[tuple[str, str, str]] = field(default_factory=list)
    """Text, reply and provider of each conversation's first answer."""
    approvals: ApprovalsConfig | None = None
    """The Profile's rules; None: no gate."""
    judge: Judge | None = None
    sees: Callable[[], bool] | None = None
    """Whether the model that serves turns takes pictures; None: nobody looks after pictures."""
    toolsets: tuple[str, ...] = CONFIG.toolsets
    on_turn: Callable[[StopSignal], None] = lambda _stop: None
    """Told of each turn's ear before it runs."""

    def restart(self, *, new_epoch: bool = False) -> None:
        """Lose all memory of the process."""
        self.runner = None
        if new_epoch:
            self.epoch += 1
            self.store.epoch = self.epoch

    def limit(self, **changes: object) -> None:
        self.limits = replace(self.limits, **changes)  # type: ignore[arg-type]

    async def send(
        self, text: str = "hello", update: str = "u1", stop: StopSignal | None = None, **facts: object
    ) -> Outcome:
        store = self.store.client(self.epoch)
        tools = tools_of(self.toolsets)
        if self.runner is None:
            compaction = self.compaction(self) if self.compaction else None
            gate = Gate(store, self.approvals, self.judge) if self.approvals else None
            toolbox = Toolbox(tools, self.sandbox, gate=gate, offers=Offers(store, SID))
            hints = DirectoryHints(self.sandbox, CONFIG.workspace_path) if self.reads_workspace else None
            sight = Describer(store, self.model, self._info, self.deltas) if self.sees else None
            loop = TurnLoop(
                store, self.model, toolbox, self.limits, self.deltas, random.Random(1), compaction, hints=hints, sight=sight
            )
            by_hand = compaction if isinstance(compaction, Compactor) else None
            self.runner = TurnRunner(
                CONFIG, store, loop, tools, self.limits, prompts=self.prompts(), by_hand=by_hand, on_first=self._first
            )
        message = inbound(update, text, **facts)
        first = self.runner.opening(message)
        opened = await store.call(
            OPEN_TURN, OpenTurnRequest(inbound=message, first=first, ack_subject="$JS.ACK.x", stream_sequence=1)
        )
        if opened.state in SETTLED:
            commit = self.store.turn(update).commits[0]
            return Outcome(commit.outcome, EndReason(commit.reason), commit.reply)
        stop = stop or StopSignal()
        self.on_turn(stop)
        return await self.runner.run(message, opened, stop)

    def prompts(self) -> SessionPrompts:
        """Return the builder of this session's prompts."""
        files = self.sandbox if self.reads_workspace else None
        return SessionPrompts(CONFIG, tools_of(CONFIG.toolsets), files, lambda: self.today)

    async def _info(self, _purpose: Purpose, _chosen: str) -> ModelInfo:
        assert self.sees is not None
        return ModelInfo(
            provider="p", model="m", api_mode="chat_completions", context_window=200_000, max_output_tokens=8_000,
            vision=self.sees(), reasoning=False, prompt_cache=False,
        )  # fmt: skip

    def _first(self, message: Inbound, turn_id: str, reply: str, provider: str) -> None:
        if isinstance(self.store, FakeStore):
            assert turn_id == self.store.turn(message.update_id).turn_id
        self.firsts.append((message.text, reply, provider))

    @property
    def transcript(self) -> list[Message]:
        return self.store.transcript(CONVERSATION)

    def results(self) -> list[ToolResultPart]:
        return [part for message in self.transcript for part in message.parts if isinstance(part, ToolResultPart)]
