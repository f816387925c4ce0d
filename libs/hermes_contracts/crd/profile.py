"""Profile: who an agent is."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from hermes_contracts.crd.base import ApiModel, Condition, Quantity, Resources, SecretRef
from hermes_contracts.crd.channels import ChannelRules
from hermes_contracts.providers import BUILT_IN, ApiMode, WireFormat

ProviderName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
Effort = Literal["Default", "None", "Minimal", "Low", "Medium", "High", "XHigh", "Max"]
Toolset = Literal["terminal", "file", "clarify", "cronjob"]
Decimal = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,9}(\.[0-9]{1,9})?$", max_length=20)]
"""An amount of US dollars, as text: 12.50."""
HttpUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$", max_length=500)]


class Price(ApiModel):
    """US dollars for a million tokens."""

    input: Decimal = Field(description="Tokens read")
    output: Decimal = Field(description="Tokens written, reasoning included")
    cached_input: Decimal | None = Field(default=None, description="Tokens read from the cache; default is `input`")
    cache_write: Decimal | None = Field(default=None, description="Tokens written to the cache; default is `input`")


class ModelFacts(ApiModel):
    """What the built-in table of models does not know, or knows wrongly."""

    context_window: Annotated[int, Field(ge=16_000, le=20_000_000)] | None = Field(
        default=None, description="Tokens the model can read"
    )
    vision: bool | None = Field(default=None, description="Whether the model takes pictures")
    reasoning: bool | None = Field(default=None, description="Whether the model takes a reasoning effort")
    price: Price | None = Field(default=None, description="What its tokens cost")


class ModelChoice(ApiModel):
    """A model at a provider, and whose key pays."""

    provider: ProviderName = Field(
        description="A built-in provider (openai, anthropic, bedrock, openrouter, gemini, groq, mistral, deepseek, xai, "
        "together, fireworks, cerebras, nous), one of spec.providers, or "
        "scripted (the bundled model that answers by script, for a first look and for tests)"
    )
    name: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        description="Model name as the provider calls it"
    )
    api_mode: ApiMode | None = Field(
        default=None,
        description="Wire format; default is the provider's. codex_app_server, for the main model only, hands each turn to "
        "the Codex app server in the sandbox, which asks this model through the agent",
    )
    base_url: HttpUrl | None = Field(
        default=None, description="Address of a compatible endpoint; default is the provider's own"
    )
    secret_ref: SecretRef | None = Field(
        default=None,
        description="Secret of type hermes.run/provider: keys `api-key` (more of them as `api-key-2`, ...) or a login, and "
        "`hosts`, the comma-separated hosts the key may be sent to",
    )
    max_output_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="Longest answer of one model call, in tokens; default is the provider's"
    )
    reasoning_effort: Effort = Field(
        default="Default", description="How much the model thinks before it answers, where it can be told"
    )
    facts: ModelFacts | None = Field(default=None, description="Overrides what is known of this model")


class Auxiliary(ApiModel):
    """Models for side jobs; each falls back to the main model."""

    compression: ModelChoice | None = Field(default=None, description="Summarises long conversations")
    title: ModelChoice | None = Field(default=None, description="Names conversations")
    vision: ModelChoice | None = Field(
        default=None, description="Describes pictures where the model that answers takes none"
    )
    approval: ModelChoice | None = Field(default=None, description="Judges commands where approvals.mode is Smart")


class Codex(ApiModel):
    """The program that turns are handed to where model.apiMode is codex_app_server."""

    command: tuple[Annotated[str, StringConstraints(min_length=1, max_length=500)], ...] = Field(
        default=("codex",),
        min_length=1,
        max_length=16,
        description="Program and first arguments, in the sandbox's image; `app-server` and its options follow",
    )


class ModelSettings(ModelChoice):
    """Which model answers, and who stands in for it."""

    fallbacks: tuple[ModelChoice, ...] = Field(
        default=(), max_length=4, description="Asked in this order when the model cannot answer"
    )
    choices: tuple[ModelChoice, ...] = Field(
        default=(),
        max_length=8,
        description="Models that people may choose for a conversation instead, by name; the fallbacks are the same",
    )
    auxiliary: Auxiliary = Field(default=Auxiliary(), description="Models for side jobs")
    codex: Codex | None = Field(default=None, description="How the program is started where apiMode is codex_app_server")


class CustomProvider(ApiModel):
    """A provider of one's own, by name."""

    name: ProviderName = Field(description="How model.provider calls it; may not be a built-in name")
    api_mode: WireFormat = Field(default="chat_completions", description="Wire format")
    base_url: HttpUrl = Field(description="Address")
    secret_ref: SecretRef | None = Field(default=None, description="Secret of its key, where the model names none")


class Compression(ApiModel):
    """How long conversations are kept within what the model can read."""

    enabled: bool = Field(default=True, description="False: a conversation that is too long ends with a plain error")
    threshold_percent: Annotated[int, Field(ge=10, le=95)] | None = Field(
        default=None,
        description="Part of the context window at which a conversation is compacted; default is 50, or 75 for windows "
        "below 512,000 tokens",
    )
    protect_first: int = Field(default=3, ge=0, le=20, description="Messages at the beginning that stay as they are")
    protect_last: int = Field(default=20, ge=8, le=200, description="Messages at the end that stay as they are")


class Approvals(ApiModel):
    """When a person is asked before a command runs. What would ruin a machine never runs, whatever is said here."""

    mode: Literal["Isolated", "Manual", "Smart", "Off"] = Field(
        default="Isolated",
        description="Isolated: nobody is asked, because commands run in a sandbox that holds no credential. Manual: a "
        "person is asked about dangerous commands. Smart: a model looks first and a person is asked when it is unsure. Off: "
        "nobody is asked",
    )
    deny: tuple[Annotated[str, StringConstraints(min_length=1, max_length=200)], ...] = Field(
        default=(), max_length=64, description="Commands that never run, as globs over the whole line: git push --force*"
    )
    timeout_seconds: int = Field(
        default=604_800, ge=60, le=2_592_000, description="Seconds until silence means no; the pod does not wait meanwhile"
    )
    unattended: Literal["Deny", "Approve"] = Field(
        default="Deny", description="What happens to a dangerous command when the clock or a webhook sent the message"
    )
    approvers: tuple[Annotated[str, StringConstraints(min_length=1, max_length=200)], ...] = Field(
        default=(),
        max_length=64,
        description="People who may answer for others, as /whoami names them; the person who asked always may",
    )


class ContextFiles(ApiModel):
    """Instructions that projects carry: .hermes.md, AGENTS.md, CLAUDE.md or .cursorrules in the workspace."""

    enabled: bool = Field(default=True, description="Whether they are read into the prompt of new conversations")
    max_characters: int = Field(default=20_000, ge=1_000, le=100_000, description="Longest part of one file that is read")


class Budgets(ApiModel):
    """Where a turn stops by itself, and where spending does. The agent says so at 80 percent and ends with a last word."""

    max_iterations: int = Field(default=90, ge=1, le=10_000, description="Model calls in one turn")
    max_turn_seconds: int = Field(default=1800, ge=10, le=86_400, description="Wall-clock seconds of one turn")
    max_turn_tokens: Annotated[int, Field(ge=1_000, le=1_000_000_000)] | None = Field(
        default=None, description="Tokens read and written in one turn"
    )
    max_turn_usd: Decimal | None = Field(default=None, description="US dollars of one turn")
    max_session_usd: Decimal | None = Field(default=None, description="US dollars of one session, ever")
    max_day_usd: Decimal | None = Field(default=None, description="US dollars of all this Profile's sessions in a UTC day")
    max_month_usd: Decimal | None = Field(
        default=None, description="US dollars of all this Profile's sessions in a UTC month"
    )
    max_day_tokens: Annotated[int, Field(ge=1_000, le=1_000_000_000_000)] | None = Field(
        default=None, description="Tokens of all this Profile's sessions in a UTC day"
    )


class Workspace(ApiModel):
    """Where a session's files live."""

    kind: Literal["Ephemeral", "PersistentVolumeClaim", "Archive"] = Field(
        default="Ephemeral",
        description="Ephemeral is gone when the session sleeps; a claim stays until the session is deleted; an Archive is "
        "saved while the session works and put back when it wakes",
    )
    size: Quantity = Field(default="1Gi", description="Bytes the workspace may hold")
    storage_class_name: Annotated[str, StringConstraints(max_length=253)] | None = Field(
        default=None, description="StorageClass of the claim; default is the cluster's"
    )


class Sandbox(ApiModel):
    """The container that runs every command."""

    image: Annotated[str, StringConstraints(max_length=500)] | None = Field(
        default=None, description="Image that contains sandboxd; default is the installation's sandbox image"
    )
    resources: Resources = Field(default=Resources(cpu="100m", memory="512Mi"), description="What commands may use")
    runtime_class_name: Annotated[str, StringConstraints(max_length=253)] | None = Field(
        default=None, description="RuntimeClass of the session's pod, for example gvisor"
    )
    workspace: Workspace = Field(default=Workspace(), description="Where files live")
    egress: Literal["None", "Internet"] = Field(
        default="None",
        description="None: the platform's own services only, not even DNS; Internet: public addresses, no private ones",
    )


class Agent(ApiModel):
    """The container that runs the loop."""

    resources: Resources = Field(default=Resources(cpu="50m", memory="192Mi"), description="What the loop may use")


class WarmPool(ApiModel):
    """Pods that have started everything and wait for a session of this Profile, or of one whose pods look the same."""

    size: int = Field(
        default=0,
        ge=0,
        le=20,
        description="Pods that wait. They cost what a live session costs; a session that finds none starts in the usual way",
    )


class ProfileSpec(ApiModel):
    """Who an agent is."""

    persona: Annotated[str, StringConstraints(max_length=16_384)] = Field(
        default="", description="Identity of the agent, first in its system prompt; default is the built-in one"
    )
    model: ModelSettings = Field(description="Which model answers, and who stands in for it")
    providers: tuple[CustomProvider, ...] = Field(
        default=(), max_length=16, description="Providers of one's own that models may name"
    )
    compression: Compression = Field(
        default=Compression(), description="How long conversations are kept within what the model can read"
    )
    approvals: Approvals = Field(default=Approvals(), description="When a person is asked before a command runs")
    channels: tuple[ChannelRules, ...] = Field(
        default=(),
        max_length=6,
        description="Chat accounts that the administrator bound to this Profile, and who may use it where. Each entry only "
        "narrows what the account allows; an account without one is used as the administrator said",
    )
    context_files: ContextFiles = Field(default=ContextFiles(), description="Instructions that projects carry")
    platform_hints: dict[
        Annotated[str, StringConstraints(max_length=32)], Annotated[str, StringConstraints(max_length=2_000)]
    ] = Field(
        default={}, max_length=16, description="Sentences added to the prompts of a channel's conversations, by channel"
    )
    toolsets: tuple[Toolset, ...] = Field(
        default=("terminal", "file"), max_length=16, description="Groups of tools that the model may use"
    )
    idle_timeout_seconds: int = Field(
        default=900, ge=5, le=604_800, description="Seconds without activity after which a session's pod goes to sleep"
    )
    max_live_sessions: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        default=None,
        description="Sessions that may have a pod at once; others wait, fairly between owners, until one sleeps",
    )
    budgets: Budgets = Field(default=Budgets(), description="Where a turn stops by itself")
    sandbox: Sandbox = Field(default=Sandbox(), description="The container that runs every command")
    agent: Agent = Field(default=Agent(), description="The container that runs the loop")
    warm_pool: WarmPool = Field(default=WarmPool(), description="Pods that are started before anybody needs them")


class ProfileStatus(ApiModel):
    """What the operator found."""

    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()
    live_sessions: int = Field(default=0, description="Sessions with a pod")
    asleep_sessions: int = Field(default=0, description="Sessions without one")
    warm_pods: int = Field(default=0, description="Pods that are ready to become a session of this Profile")
    spent_today_usd: str = Field(default="", description="US dollars spent in this UTC day, as far as prices are known")
    spent_month_usd: str = Field(default="", description="US dollars spent in this UTC month, as far as prices are known")


_BUILT_IN_NAMES = ", ".join(f"'{name}'" for name in BUILT_IN)
_KEYLESS = "self.provider == 'scripted'"
_HANDED_OVER = "(has(self.apiMode) && self.apiMode == 'codex_app_server')"

PROFILE_RULES: tuple[tuple[str, str, str], ...] = (
    ("", "self.metadata.name.size() <= 52", "metadata.name must have at most 52 characters"),
    ("", "!self.metadata.name.contains('.')", "metadata.name must be one DNS label: no dots"),
    (
        "spec",
        f"self.model.provider in [{_BUILT_IN_NAMES}] || "
        "(has(self.providers) && self.providers.exists(p, p.name == self.model.provider))",
        "model.provider is neither a built-in provider nor one of spec.providers",
    ),
    (
        "spec",
        f"!has(self.model.fallbacks) || self.model.fallbacks.all(m, m.provider in [{_BUILT_IN_NAMES}] || "
        "(has(self.providers) && self.providers.exists(p, p.name == m.provider)))",
        "a fallback's provider is neither a built-in provider nor one of spec.providers",
    ),
    (
        "spec",
        f"!has(self.model.choices) || self.model.choices.all(m, m.provider in [{_BUILT_IN_NAMES}] || "
        "(has(self.providers) && self.providers.exists(p, p.name == m.provider)))",
        "a choice's provider is neither a built-in provider nor one of spec.providers",
    ),
    (
        "spec.model",
        "!has(self.choices) || self.provider == 'scripted' || self.choices.all(m, m.provider != 'scripted')",
        "the scripted model is no choice beside a real one: remove it from model.choices",
    ),
    (
        "spec.model",
        "!has(self.choices) || self.choices.all(m, m.name != self.name && "
        "self.choices.exists_one(other, other.name == m.name))",
        "model.choices are chosen by name: give each a name of its own, other than model.name",
    ),
    (
        "spec.model",
        f"!has(self.choices) || self.choices.size() == 0 || !{_HANDED_OVER}",
        "model.apiMode codex_app_server runs every turn with the main model: remove model.choices",
    ),
    (
        "spec",
        "!has(self.model.fallbacks) || self.model.provider == 'scripted' || "
        "self.model.fallbacks.all(m, m.provider != 'scripted')",
        "the scripted model is never a fallback for a real one: remove it from model.fallbacks",
    ),
    (
        "spec",
        f"!has(self.providers) || self.providers.all(p, !(p.name in [{_BUILT_IN_NAMES}]))",
        "providers may not be named like a built-in provider",
    ),
    (
        "spec",
        f"{_KEYLESS.replace('self.', 'self.model.')} || has(self.model.secretRef) || "
        "(has(self.providers) && self.providers.exists(p, p.name == self.model.provider && has(p.secretRef)))",
        "model.secretRef is required: name a Secret of type hermes.run/provider that holds the provider's key",
    ),
    (
        "spec",
        "!has(self.channels) || self.channels.all(c, self.channels.exists_one(d, d.channel == c.channel && "
        "d.account == c.account))",
        "channels: an account is there twice; say all of it in one entry",
    ),
    (
        "spec",
        "!has(self.warmPool) || !has(self.warmPool.size) || self.warmPool.size == 0 || !has(self.sandbox) || "
        "!has(self.sandbox.workspace) || !has(self.sandbox.workspace.kind) || "
        "self.sandbox.workspace.kind != 'PersistentVolumeClaim'",
        "a pod that waits cannot have a session's volume: set warmPool.size to 0 or sandbox.workspace.kind to Ephemeral "
        "or Archive",
    ),
    (
        "spec.sandbox.workspace",
        "!has(self.kind) || self.kind != 'Archive' || !has(self.size) || "
        "quantity(self.size).compareTo(quantity('1Gi')) <= 0",
        "a workspace of kind Archive holds at most 1Gi: set size to 1Gi or less, or kind to PersistentVolumeClaim",
    ),
    (
        "spec.model",
        f"!({_KEYLESS}) || (!has(self.secretRef) && !has(self.baseUrl))",
        "provider scripted needs no key and has no address: remove model.secretRef and model.baseUrl",
    ),
    (
        "spec.model",
        f"!has(self.codex) || {_HANDED_OVER}",
        "model.codex says how the Codex app server is started: set model.apiMode to codex_app_server, or remove it",
    ),
    (
        "spec",
        f"!{_HANDED_OVER.replace('self.', 'self.model.')} || (has(self.toolsets) && "
        "self.toolsets.exists(t, t == 'terminal') && self.toolsets.exists(t, t == 'file'))",
        "model.apiMode codex_app_server runs commands and changes files: toolsets must hold terminal and file",
    ),
)
"""CEL rules: (path below the root, expression, message)."""
