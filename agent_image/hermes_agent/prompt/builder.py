"""`PromptBuilder` for one session: the Profile's facts, what the workspace says, the tools' schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from hermes_agent.prompt import tiers
from hermes_agent.prompt.facts import Facts, Workspace
from hermes_agent.prompt.gather import gather
from hermes_agent.prompt.reading import WorkspaceFiles
from hermes_agent.tools.base import AnyTool
from hermes_agent.tools.registry import toolsets_of_run
from hermes_contracts.agent_config import AgentConfig
from hermes_contracts.envelopes import CronRun, Inbound
from hermes_contracts.store_api import FrozenPrompt


class SessionPrompts:
    """Builds prompts for a session's conversations. Without `files` nothing is read from the workspace."""

    def __init__(
        self,
        config: AgentConfig,
        tools: Mapping[str, AnyTool],
        files: WorkspaceFiles | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._config = config
        self._tools = dict(sorted(tools.items()))
        self._files = files
        self._now = now

    async def build(self, inbound: Inbound) -> FrozenPrompt:
        """Return the prompt of a new conversation."""
        run = inbound.run
        if run is None:
            return await self._prompt(inbound.channel, inbound.instructions, self._within(inbound.toolsets))
        # A conversation that goes on after the run has all of its tools; calls are refused while the run lasts.
        own = run.channel == inbound.channel
        return await self._prompt(run.channel, inbound.instructions, self._of_run(run) if own else None)

    async def rebuild(self, system: str) -> FrozenPrompt:
        """Return the prompt anew, with the channel and the caller's instructions of `system`."""
        return await self._prompt(tiers.channel_in(system), tiers.instructions_in(system), tiers.toolsets_in(system))

    def _of_run(self, run: CronRun) -> Sequence[str] | None:
        return toolsets_of_run(run.toolsets, self._config.toolsets)

    def _within(self, toolsets: Sequence[str] | None) -> Sequence[str] | None:
        return None if toolsets is None else [name for name in toolsets if name in self._config.toolsets]

    async def _prompt(self, channel: str, instructions: str, toolsets: Sequence[str] | None = None) -> FrozenPrompt:
        config = self._config
        tools = {name: tool for name, tool in self._tools.items() if toolsets is None or tool.toolset in toolsets}
        workspace = Workspace()
        if self._files is not None and tools:
            limit = config.context_file_characters if config.context_files else 0
            workspace = await gather(self._files, config.workspace_path, max_characters=limit)
        facts = Facts(
            persona=config.persona,
            tools=frozenset(tools),
            toolsets=None if toolsets is None else tuple(toolsets),
            workspace_path=config.workspace_path,
            today=self._now(),
            profile=config.profile,
            model=config.model,
            channel=channel,
            hint=config.platform_hints.get(channel, ""),
            instructions=instructions,
            workspace=workspace,
        )
        return FrozenPrompt(system=tiers.build(facts), tools=tuple(tool.spec() for tool in tools.values()))
