"""The session folder: who this agent is, its bus credential and its token for the models service. Read once at start."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from hermes_contracts.agent_config import (
    BUS_CREDENTIALS_FILE,
    CONFIG_FILE,
    MODELS_TOKEN_FILE,
    MOUNT_PATH,
    AgentConfig,
)
from hermes_contracts.warm_pool import WARM_FILE, Waiting
from hermes_service.bus import BusCredentials

MAX_FILE_BYTES = 1024 * 1024
"""Kubernetes allows no larger Secret."""


class SettingsError(Exception):
    """The session folder is unusable; the text says which file and why, never what is in it."""


@dataclass
class ModelsToken:
    """Bearer token for the models service; replaced while the agent lives."""

    value: str

    def __repr__(self) -> str:
        """Keep the token out of logs."""
        return "ModelsToken(...)"


@dataclass(frozen=True)
class SessionFolder:
    """What the operator handed over."""

    config: AgentConfig
    credentials: BusCredentials
    models_token: ModelsToken


@dataclass(frozen=True)
class WaitingFolder:
    """What the operator gives a pod that has no session yet."""

    waiting: Waiting
    credentials: BusCredentials


def session_directory() -> Path:
    """Return the folder named by HERMES_SESSION_DIR, the only variable the agent reads."""
    return Path(os.environ.get("HERMES_SESSION_DIR") or MOUNT_PATH)  # noqa: TID251 - this is the settings module


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise SettingsError(f"{path.name}: larger than {MAX_FILE_BYTES} bytes")
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path.name}: cannot be read ({type(error).__name__})") from error


def load(folder: Path) -> SessionFolder:
    """Read the folder. Raises SettingsError."""
    try:
        config = AgentConfig.model_validate_json(_read(folder / CONFIG_FILE))
    except ValidationError as error:
        raise _invalid(CONFIG_FILE, error) from None
    credentials = _credentials(folder)
    token = _read(folder / MODELS_TOKEN_FILE).strip()
    if not token:
        raise SettingsError(f"{MODELS_TOKEN_FILE}: empty")
    return SessionFolder(config, credentials, ModelsToken(token))


def load_waiting(folder: Path) -> WaitingFolder | None:
    """Read the folder of a pod that waits for a session; None when it has one. Raises SettingsError."""
    if not (folder / WARM_FILE).is_file():
        return None
    try:
        waiting = Waiting.model_validate_json(_read(folder / WARM_FILE))
    except ValidationError as error:
        raise _invalid(WARM_FILE, error) from None
    return WaitingFolder(waiting, _credentials(folder))


def _credentials(folder: Path) -> BusCredentials:
    try:
        return BusCredentials.parse(_read(folder / BUS_CREDENTIALS_FILE))
    except ValueError as error:
        raise SettingsError(f"{BUS_CREDENTIALS_FILE}: {error}") from None


def _invalid(file: str, error: ValidationError) -> SettingsError:
    found = error.errors(include_input=False, include_url=False)[:5]
    return SettingsError(f"{file}: " + "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in found))
