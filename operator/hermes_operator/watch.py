"""Watches our kinds and the agents' pods through kopf, which reconnects and resumes; what to do is decided elsewhere.

kopf gets no handler that would write: no annotations, no finalizers, no Events of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import kopf
import structlog
from kubernetes.aio.client.configuration import Configuration

from hermes_contracts.names import GROUP, LABEL_PART_OF, VERSION
from hermes_operator.build.meta import PART_OF
from hermes_operator.cluster.client import Manifest

log = structlog.get_logger()

POD_SELECTOR = f"{LABEL_PART_OF}={PART_OF},{GROUP}/sid"
"""Only agents' pods travel over the watch and into memory."""
_SERVER_TIMEOUT_SECONDS = 210
"""The server ends a watch after this, so that one which died silently is noticed."""

Take = Callable[[str | None, Manifest], object]
"""Takes an event: its type (None: from a list) and the object."""


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.watching.server_timeout = _SERVER_TIMEOUT_SECONDS
    settings.watching.connect_timeout = 10
    settings.watching.chunk_size = 500
    settings.watching.label_selectors["pods"] = POD_SELECTOR
    settings.queueing.worker_limit = 50
    settings.queueing.idle_timeout = 0.5
    settings.process.ultimate_exiting_timeout = None
    return settings


async def watch(
    configuration: Configuration, namespaces: tuple[str, ...], takes: Mapping[str, Take], started: asyncio.Event
) -> None:
    """Watch until cancelled; `takes` maps `hermessessions`, `profiles` and `pods` to who takes their events.

    kopf claims the signals of the main thread for itself, and returns from here when one comes. From when `started` is
    set the caller may claim them back.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return await connection(configuration)

    def handler(take: Take) -> Callable[..., Any]:
        async def on_event(event: dict[str, Any], **_: Any) -> None:
            take(event["type"], event["object"])

        return on_event

    for plural, take in takes.items():
        where = ("pods",) if plural == "pods" else (GROUP, VERSION, plural)
        kopf.on.event(*where, id=plural, registry=registry)(handler(take))
    await kopf.operator(
        registry=registry,
        settings=_settings(),
        namespaces=list(namespaces),
        standalone=True,
        ready_flag=started,
    )


async def connection(configuration: Configuration) -> kopf.ConnectionInfo:
    """Return the client's own way to the API server; asked again when a token has run out."""
    header = await configuration.get_api_key_with_prefix("BearerToken")
    scheme, _, token = (header or "").rpartition(" ")
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=_path(configuration.ssl_ca_cert),
        insecure=not configuration.verify_ssl,
        scheme=(scheme or "Bearer").capitalize() if token else None,
        token=token or None,
        certificate_path=_path(configuration.cert_file),
        private_key_path=_path(configuration.key_file),
    )


def _path(value: str | Path | None) -> str | None:
    return str(value) if value else None
