"""The folder that an agent reads at start, as a Secret: who it is, its bus credential, its token for models."""

from __future__ import annotations

import base64
from typing import Any

from hermes_contracts.agent_config import (
    BUS_CREDENTIALS_FILE,
    CONFIG_FILE,
    MODELS_TOKEN_FILE,
    AgentConfig,
    ApprovalsConfig,
    CodexConfig,
    CompressionConfig,
)
from hermes_contracts.crd.profile import Codex, ModelSettings
from hermes_contracts.names import credentials_name
from hermes_contracts.providers import CODEX_MODE
from hermes_operator.build.facts import Epoch, Installation
from hermes_operator.build.meta import epoch_labels, owned_by_session
from hermes_operator.build.money import nano_usd
from hermes_operator.build.quantity import to_bytes


def agent_config(installation: Installation, epoch: Epoch) -> AgentConfig:
    """Return `session.json`; the one place where a Profile becomes what its agents read."""
    profile = epoch.profile
    budgets, compression, workspace = profile.budgets, profile.compression, profile.sandbox.workspace
    return AgentConfig(
        sid=epoch.sid,
        epoch=epoch.epoch,
        namespace=epoch.namespace,
        session_name=epoch.session,
        profile=epoch.profile_name,
        bus_url=installation.bus_url,
        models_url=installation.models_url,
        gateway_public_key=installation.gateway_public_key,
        persona=profile.persona,
        model=profile.model.name,
        toolsets=profile.toolsets,
        max_iterations=budgets.max_iterations,
        max_turn_seconds=budgets.max_turn_seconds,
        max_output_tokens=profile.model.max_output_tokens,
        max_turn_tokens=budgets.max_turn_tokens,
        max_turn_cost_nano_usd=nano_usd(budgets.max_turn_usd) if budgets.max_turn_usd is not None else None,
        compression=CompressionConfig(
            enabled=compression.enabled,
            threshold_percent=compression.threshold_percent,
            protect_first=compression.protect_first,
            protect_last=compression.protect_last,
        ),
        approvals=ApprovalsConfig.model_validate(
            {
                "mode": profile.approvals.mode.lower(),
                "deny": profile.approvals.deny,
                "timeout_seconds": profile.approvals.timeout_seconds,
                "unattended": profile.approvals.unattended.lower(),
            }
        ),
        codex=codex_config(profile.model),
        context_files=profile.context_files.enabled,
        context_file_characters=profile.context_files.max_characters,
        platform_hints=dict(profile.platform_hints),
        archive_bytes=to_bytes(workspace.size) if workspace.kind == "Archive" else None,
        idle_timeout_seconds=epoch.idle_timeout_seconds,
        created_at=epoch.created_at,
    )


def codex_config(model: ModelSettings) -> CodexConfig | None:
    """Return how the program is started that turns are handed to; None where our own loop runs them."""
    if model.api_mode != CODEX_MODE:
        return None
    return CodexConfig(command=(model.codex or Codex()).command)


def build_secret(installation: Installation, epoch: Epoch, *, bus_credentials: str, models_token: str) -> dict[str, Any]:
    """Return the Secret of one epoch."""
    files = {
        CONFIG_FILE: agent_config(installation, epoch).model_dump_json(),
        BUS_CREDENTIALS_FILE: bus_credentials,
        MODELS_TOKEN_FILE: models_token,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": credentials_name(epoch.session, epoch.epoch),
            "namespace": epoch.namespace,
            "labels": epoch_labels(epoch.sid, epoch.epoch, epoch.profile_name),
            "ownerReferences": owned_by_session(epoch.session, epoch.session_uid),
        },
        "data": {name: base64.b64encode(text.encode()).decode() for name, text in files.items()},
    }
