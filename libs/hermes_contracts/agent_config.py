"""What the operator hands an agent pod: one mounted folder, read once at start."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from hermes_contracts import PROTOCOL_VERSION
from hermes_contracts.names import DnsLabel, ObjectName, Sid

CONFIG_FILE = "session.json"
BUS_CREDENTIALS_FILE = "bus.creds"
MODELS_TOKEN_FILE = "models.token"

MOUNT_PATH = "/run/hermes/session"
SOCKET_DIRECTORY = "/run/hermes/exec"
SOCKET_PATH = f"{SOCKET_DIRECTORY}/exec.sock"
WORKSPACE_PATH = "/workspace"


class CompressionConfig(BaseModel):
    """When and how a long conversation is compacted."""

    model_config = ConfigDict(frozen=True)

    enabled: bool = True
    threshold_percent: int | None = None
    """Of the model's context window; None: 50, or 75 for windows below 512,000 tokens."""
    protect_first: int = 3
    protect_last: int = 20


class ApprovalsConfig(BaseModel):
    """When a person is asked before a command runs."""

    model_config = ConfigDict(frozen=True)

    mode: Literal["isolated", "manual", "smart", "off"] = "isolated"
    """`isolated`: nobody is asked, because the sandbox holds nothing that a command could harm beyond itself."""
    deny: tuple[str, ...] = ()
    """Globs over whole commands; what matches never runs."""
    timeout_seconds: int = 604_800
    """Silence for so long means no."""
    unattended: Literal["deny", "approve"] = "deny"
    """What happens to a dangerous command when the clock or a webhook sent the message."""


class CodexConfig(BaseModel):
    """The program in the sandbox that turns are handed to."""

    model_config = ConfigDict(frozen=True)

    command: tuple[str, ...] = Field(default=("codex",), min_length=1)


class AgentConfig(BaseModel):
    """`session.json`: who the agent is and where its services are. Holds no secret."""

    model_config = ConfigDict(frozen=True)

    version: int = PROTOCOL_VERSION
    sid: Sid
    epoch: int = Field(ge=1)
    namespace: DnsLabel
    session_name: str
    profile: ObjectName
    bus_url: str
    models_url: str
    gateway_public_key: str
    """ed25519 public key, as an nkey of type user, that signs inbound messages."""
    socket_path: str = SOCKET_PATH
    workspace_path: str = WORKSPACE_PATH
    archive_bytes: int | None = None
    """Most bytes of a workspace that is kept over sleep by snapshots; None: whatever keeps it, the agent does not."""
    persona: str
    model: str
    toolsets: tuple[str, ...]
    max_iterations: int = Field(ge=1)
    max_turn_seconds: int = Field(ge=1)
    max_output_tokens: int | None = None
    max_turn_tokens: int | None = None
    """Input and output tokens of one turn's model calls together."""
    max_turn_cost_nano_usd: int | None = None
    compression: CompressionConfig = CompressionConfig()
    approvals: ApprovalsConfig = ApprovalsConfig()
    codex: CodexConfig | None = None
    """None: turns are run by our own loop."""
    context_files: bool = True
    context_file_characters: int = 20_000
    platform_hints: dict[str, str] = Field(default_factory=dict)
    """Channel to a sentence of the administrator's that its conversations' prompts carry."""
    idle_timeout_seconds: int = Field(ge=1)
    created_at: float = 0.0
    """Seconds since the epoch when the operator decided to start this pod: the zero of the start-up breakdown."""
