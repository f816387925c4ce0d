"""Composition root: the only place that names concrete classes."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from hermes_agent.approvals.gate import Gate
from hermes_agent.approvals.judge import ModelJudge
from hermes_agent.compression.compaction import Compactor
from hermes_agent.loop.limits import Limits
from hermes_agent.loop.ports import HandCompaction, Turns
from hermes_agent.loop.run import TurnRunner
from hermes_agent.loop.sight import Describer
from hermes_agent.loop.title import Titles
from hermes_agent.loop.turn import TurnLoop
from hermes_agent.model.client import HttpModelClient
from hermes_agent.prompt.builder import SessionPrompts
from hermes_agent.prompt.directory_hints import DirectoryHints
from hermes_agent.sandbox import Sandbox
from hermes_agent.settings import SessionFolder
from hermes_agent.store_port import Store
from hermes_agent.tools.executor import Toolbox
from hermes_agent.tools.offers import Offers
from hermes_agent.tools.registry import tools_of
from hermes_agent.tools.sandbox_adapter import CONNECT_SECONDS, SandboxAdapter
from hermes_agent.transport.commands import Commands
from hermes_agent.transport.deltas import BusDeltas
from hermes_agent.transport.inbox import Inbox
from hermes_agent.transport.orders import Orders
from hermes_agent.transport.reports import Reporter
from hermes_agent.transport.worker import ExitCode, Worker
from hermes_contracts import subjects
from hermes_contracts.agent_config import AgentConfig
from hermes_service import bus
from hermes_service.rpc import agent_jobs_client, agent_store_client
from hermes_service.signing import Verifier

if TYPE_CHECKING:
    from hermes_agent.workspace.keeper import Keeper

log = structlog.get_logger()

TERMINATION_SECONDS = 20.0
"""How long a running turn may go on after SIGTERM; below the pod's grace period."""


@dataclass(frozen=True)
class Clock:
    """Start of the process and end of its imports, in seconds since the epoch."""

    started: float
    imported: float

    def breakdown(self, created_at: float, connected: float) -> dict[str, float]:
        """Return the start-up in milliseconds: `started` and `total` count from when the operator decided."""
        created = created_at or self.started
        phases = {
            "started": self.started - created,
            "imports": self.imported - self.started,
            "connected": connected - self.imported,
            "total": connected - created,
        }
        return {name: round(max(0.0, seconds) * 1000, 1) for name, seconds in phases.items()}


def limits_of(config: AgentConfig) -> Limits:
    """Return the limits that the Profile sets."""
    return Limits(
        max_iterations=config.max_iterations,
        max_turn_seconds=config.max_turn_seconds,
        max_turn_tokens=config.max_turn_tokens,
        max_turn_cost_nano_usd=config.max_turn_cost_nano_usd,
        max_output_tokens=config.max_output_tokens,
    )


def _keeper(config: AgentConfig, store: Store) -> Keeper | None:
    """Return what keeps the workspace, if the agent has to."""
    if config.archive_bytes is None:
        return None
    # Imported by those only that need it: its models take their time to build.
    from hermes_agent.workspace.archive import Archive
    from hermes_agent.workspace.keeper import Keeper

    # A connection of its own: what is read for a snapshot does not stand before what a tool asks for.
    return Keeper(Archive(store, Sandbox(config.socket_path, connect_seconds=CONNECT_SECONDS), config.archive_bytes))


async def run(folder: SessionFolder, clock: Clock) -> ExitCode:
    """Be the agent of one session and epoch until drained, fenced or told to end."""
    config = folder.config
    structlog.contextvars.bind_contextvars(sid=config.sid, epoch=config.epoch)
    reconnected: list[Callable[[], None]] = []

    def on_reconnected() -> None:
        for call in reconnected:
            call()

    client = await bus.connect(
        config.bus_url,
        folder.credentials,
        name=f"agent {config.sid}-{config.epoch}",
        inbox=subjects.agent_inbox(config.sid, config.epoch),
        on_reconnected=on_reconnected,
    )
    store = agent_store_client(client, config.sid, config.epoch)
    model = HttpModelClient(config.models_url, folder.models_token)
    keeper = _keeper(config, store)
    sandbox = SandboxAdapter(config.socket_path, keeper)
    tools = tools_of(config.toolsets)
    limits = limits_of(config)
    deltas = BusDeltas(client, config.sid, config.epoch)
    hints = DirectoryHints(sandbox, config.workspace_path) if config.context_files else None
    prompts = SessionPrompts(config, tools, sandbox)
    titles = Titles(store, model)
    compactor = Compactor(store, model, deltas, config.compression, model.window, prompts.rebuild)
    gate = Gate(store, config.approvals, ModelJudge(model))
    sight = Describer(store, model, model.info, deltas)
    jobs = agent_jobs_client(client, config.sid, config.epoch)
    toolbox = Toolbox(tools, sandbox, gate=gate, offers=Offers(store, config.sid), jobs=jobs)
    turns: Turns = TurnLoop(store, model, toolbox, limits, deltas, random.Random(), compactor, hints, sight, keeper)
    by_hand: HandCompaction = compactor
    if config.codex is not None:
        from hermes_agent.codex.turn import CodexTurns  # the few that need it pay for its import

        turns = by_hand = CodexTurns(config, config.codex, store, model, model.window, toolbox, limits, deltas, keeper)
    runner = TurnRunner(
        config, store, turns, tools, limits, prompts=prompts, by_hand=by_hand, on_first=titles.first_exchange
    )
    commands = Commands(store, runner)
    reporter = Reporter(store, socket.gethostname())
    inbox = Inbox(client, config.sid, config.epoch)
    worker = Worker(client, store, runner, inbox, commands, reporter, deltas, (titles,), keeper)
    reconnected.append(worker.reconnected)
    orders = Orders(
        client,
        folder.credentials,
        folder.models_token,
        on_commands=commands.look,
        on_drain=worker.drain,
        on_renewal=worker.renew,
    )
    await orders.start(config.sid, config.epoch)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.drain, TERMINATION_SECONDS)
    try:
        startup = clock.breakdown(config.created_at, time.time())
        return await worker.run(Verifier(config.gateway_public_key), config.sid, startup)
    finally:
        await sandbox.close()
        await model.close()
        await client.close()
