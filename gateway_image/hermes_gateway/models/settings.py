"""Settings of the models service."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from hermes_contracts.installation import PORT_MODELS
from hermes_contracts.names import DnsLabel
from hermes_service.settings import ProcessSettings


class ModelsSettings(ProcessSettings):
    """Everything the models service is told; `HERMES_<FIELD>`."""

    listen_host: str = "0.0.0.0"
    listen_port: int = PORT_MODELS
    """0 takes any free port."""
    token_public_key_file: Path = Path("/run/hermes/token/public.pem")
    """One or more ed25519 public keys as PEM: two while a key is being rotated."""
    profiles_file: Path | None = None
    """YAML file of Profiles and Secrets for development; none: they are read from Kubernetes."""
    tenants: tuple[DnsLabel, ...] = ()
    """Namespaces whose Profiles are served."""
    scripted_url: str = "http://127.0.0.1:8646/v1"
    allowed_private_hosts: tuple[str, ...] = ()
    """Hosts, as written in base URLs, that may have private addresses and may be spoken to without TLS."""

    heartbeat_seconds: float = Field(default=10.0, gt=0)
    idle_seconds: float = Field(default=180.0, gt=0)
    """Silence of a provider after which a call is given up."""
    connect_seconds: float = Field(default=10.0, gt=0)
    call_seconds: float = Field(default=1800.0, gt=0)
    """Longest call, first byte to last."""
    grace_seconds: int = Field(default=20, ge=0)
    """How long running streams may go on after SIGTERM; with the accounts after it, less than the pod's own 30 s."""
    max_body_bytes: int = Field(default=32 * 1024 * 1024, ge=1024)
    secret_cache_seconds: float = Field(default=30.0, ge=0, le=30.0)
