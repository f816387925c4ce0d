"""What a conversation costs before the person has said anything: bytes and tokens (bytes / 4) of prompt and tool schemas.

Hermes Agent's baseline, as its users measured it: 46 to 57 KB, about 16,000 tokens.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from bench.report import emit
from hermes_agent.loop.transcript import Transcript
from hermes_agent.prompt.builder import SessionPrompts
from hermes_agent.prompt.facts import Facts
from hermes_agent.prompt.tiers import sections
from hermes_agent.testing.sandbox import FakeSandbox
from hermes_agent.tools.registry import tools_of
from hermes_contracts.agent_config import AgentConfig
from hermes_contracts.envelopes import Inbound
from hermes_contracts.names import RoutingKey, conversation_id, session_id

PEER = "Hermes Agent: 46,000 to 57,000 bytes"
TOOLSETS = ("terminal", "file")
DAY = datetime(2026, 11, 30, tzinfo=UTC)


def config(toolsets: tuple[str, ...]) -> AgentConfig:
    """Return a Profile's defaults as an agent gets them."""
    sid = session_id("uid", "helper", RoutingKey(channel="api", chat="bench"))
    return AgentConfig(
        sid=sid, epoch=1, namespace="team", session_name="s", profile="helper", bus_url="", models_url="",
        gateway_public_key="", persona="", model="claude-sonnet-4-5", toolsets=toolsets, max_iterations=90,
        max_turn_seconds=1800, idle_timeout_seconds=900,
    )  # fmt: skip


def inbound(of: AgentConfig, channel: str) -> Inbound:
    """Return a first message."""
    return Inbound(
        sid=of.sid, conversation=conversation_id("main"), channel=channel, account="a", update_id="1", owner="o",
        text="hello", received_at=0.0,
    )  # fmt: skip


async def measure(toolsets: tuple[str, ...], channel: str) -> dict[str, int]:
    """Build a prompt in an empty workspace and measure what of it goes into each request."""
    of = config(toolsets)
    prompt = await SessionPrompts(of, tools_of(toolsets), FakeSandbox(), lambda: DAY).build(inbound(of, channel))
    sent = Transcript("c")
    sent.set_prompt(prompt)
    system, tools = len(prompt.system.encode()), len(sent.tools)
    largest = max((len(tool.model_dump_json()) for tool in prompt.tools), default=0)
    return {
        "system_bytes": system,
        "tools_bytes": tools,
        "bytes": system + tools,
        "tokens": -(-(system + tools) // 4),
        "tools": len(prompt.tools),
        "largest_tool_bytes": largest,
    }


def tiers() -> dict[str, int]:
    """Return the bytes of each block of the prompt."""
    facts = Facts("", frozenset(tools_of(TOOLSETS)), "/workspace", DAY, "helper", "gpt-5", "slack")
    return {block.name: len(block.text.encode()) for block in sections(facts)}


def main() -> None:
    """Print a line for the usual toolsets and one for none."""
    emit("prompt_size", **asyncio.run(measure(TOOLSETS, "slack")), peer=PEER)
    emit("prompt_size_no_tools", **asyncio.run(measure((), "slack")))
    emit("prompt_size_blocks", **{f"{name.replace(' ', '_')}_bytes": size for name, size in tiers().items()})


if __name__ == "__main__":
    main()
