"""Base of every process's settings class: the only place that reads the environment."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict


class ProcessSettings(BaseSettings):
    """Variables named `HERMES_<FIELD>`; nested groups with `__`. Frozen: passed down, never asked for again."""

    model_config = SettingsConfigDict(
        env_prefix="HERMES_", env_nested_delimiter="__", frozen=True, extra="ignore", hide_input_in_errors=True
    )

    log_level: str = "info"
    operations_host: str = "0.0.0.0"
    operations_port: int = 9090
    """Listener for metrics and health; 0 takes any free port."""
    bus_url: str = "nats://127.0.0.1:4222"
    bus_credentials_file: Path = Path("/run/hermes/bus/bus.creds")
    trace_endpoint: str = ""
    """OTLP/HTTP endpoint; empty: no traces."""


def explain(error: ValidationError) -> str:
    """Say in one line which variables are wrong and why, without their values."""
    return "; ".join(
        f"HERMES_{'__'.join(str(part) for part in e['loc']).upper()}: {e['msg']}" for e in error.errors(include_input=False)
    )
