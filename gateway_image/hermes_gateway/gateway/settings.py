"""Settings of the gateway process."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from hermes_contracts.installation import PORT_API, PORT_WEBHOOKS
from hermes_service.settings import ProcessSettings


class GatewaySettings(ProcessSettings):
    """What the gateway is told by its environment."""

    api_host: str = "0.0.0.0"
    api_port: int = PORT_API
    webhooks_host: str = "0.0.0.0"
    webhooks_port: int = PORT_WEBHOOKS
    api_keys_file: Path = Path("/run/hermes/api-keys/keys.json")
    """A missing file means that nobody has a key."""
    webhooks_file: Path = Path("/run/hermes/webhooks/webhooks.json")
    """A missing file means that there is no webhook."""
    slack_file: Path = Path("/run/hermes/slack/slack.json")
    """A missing file means that there is no Slack."""
    telegram_file: Path = Path("/run/hermes/telegram/telegram.json")
    """A missing file means that there is no Telegram."""
    signing_seed_file: Path = Path("/run/hermes/signing/seed")
    api_max_body_bytes: int = Field(default=12 * 1024 * 1024, ge=1024)
    """Front ends send the whole history with each call, and a picture of 8 MiB is a third longer as text."""
    api_caller_body_bytes: int = Field(default=32 * 1024 * 1024, ge=1024)
    """Bodies of one key's calls in flight together."""
    api_all_body_bytes: int = Field(default=64 * 1024 * 1024, ge=1024)
    """Bodies of all calls in flight together: reading one costs about three times its size in memory."""
    webhook_max_body_bytes: int = Field(default=256 * 1024, ge=1024)
    body_timeout_seconds: float = Field(default=30.0, gt=0)
    """How long a client may take to send its body."""
    answer_timeout_seconds: float = Field(default=600.0, gt=0)
    """How long a call without streaming waits for its answer; the turn goes on after it."""
    answer_poll_seconds: float = Field(default=3.0, gt=0)
    """How often the store is asked for an answer whose event may have been missed."""
    max_waiting_calls: int = Field(default=1000, ge=1)
    """Calls of one replica that wait for an answer at the same time."""
    heartbeat_seconds: float = Field(default=15.0, gt=0)
    """Silence on an event stream before a comment is sent."""
    publish_timeout_seconds: float = Field(default=3.0, gt=0)
    """How long one attempt to publish may take; there are three, with the same message id."""
    command_wait_seconds: float = Field(default=2.0, ge=0)
    """How long a call that stops, steers, redirects or compresses waits for the result if it does not say."""
    delivery_timeout_seconds: float = Field(default=15.0, gt=0)
    delivery_max_attempts: int = Field(default=10, ge=1)
    shutdown_seconds: int = Field(default=15, ge=0)
    """How long calls in flight may go on after SIGTERM."""
