"""Watches our kinds and the agents' pods through kopf, which reconnects and resumes; what to do is decided elsewhere.

kopf gets no handler that would write: no annotations, no finalizers, no Events of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kopf
from kubernetes.aio.client.configuration import Configuration

from hermes_contracts.names import GROUP, VERSION
from hermes_operator import metrics
from hermes_operator.lists import take
from hermes_operator.watched import Watched

_SERVER_TIMEOUT_SECONDS = 210
"""The server ends a watch after this, so that one which died silently is noticed."""


def _settings(kinds: tuple[Watched, ...]) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.watching.server_timeout = _SERVER_TIMEOUT_SECONDS
    settings.watching.connect_timeout = 10
    settings.watching.chunk_size = 500
    for kind in kinds:
        if kind.labels:
            settings.watching.label_selectors[kind.resource.plural] = kind.labels
    settings.queueing.worker_limit = 50
    settings.queueing.idle_timeout = 0.5
    settings.process.ultimate_exiting_timeout = None
    return settings


async def watch(
    configuration: Configuration, namespaces: tuple[str, ...], kinds: tuple[Watched, ...], started: asyncio.Event
) -> None:
    """Watch until cancelled.

    kopf claims the signals of the main thread for itself, and returns from here when one comes. From when `started` is
    set the caller may claim them back.
    """
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return await connection(configuration)

    for kind in kinds:
        plural = kind.resource.plural
        where = ("pods",) if plural == "pods" else (GROUP, VERSION, plural)
        kopf.on.event(*where, id=plural, registry=registry)(_handler(kind))
    await kopf.operator(
        registry=registry,
        settings=_settings(kinds),
        namespaces=list(namespaces),
        standalone=True,
        ready_flag=started,
    )


def _handler(kind: Watched) -> Callable[..., Any]:
    async def on_event(event: dict[str, Any], **_: Any) -> None:
        metrics.WATCH_EVENTS.labels(kind.resource.plural).inc()
        take(kind, event["type"], event["object"])

    return on_event


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
