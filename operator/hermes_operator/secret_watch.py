"""Provider Secrets: read once, kept as facts without their keys, and noticed within seconds when they change.

Rights to list or watch Secrets would open every Secret of a tenant, metadata only or not: RBAC does not tell them apart.
So each one that a Profile names is asked for by name, and only for its metadata, which costs the API server next to nothing.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import structlog

from hermes_operator.cluster.cache import Name
from hermes_operator.cluster.client import ClusterClient, Manifest
from hermes_operator.cluster.errors import ClusterError
from hermes_operator.cluster.resources import SECRETS
from hermes_operator.reconcile.model import Unknown
from hermes_operator.reconcile.provider_secrets import SecretFacts, SecretState, uses
from hermes_operator.state import Shared, profile_key

log = structlog.get_logger()

ROUND_SECONDS = 3.0
"""Between looks at the same Secret, as long as there are few."""
MAX_LOOKS_A_SECOND = 10
"""With more Secrets than fit, a round takes longer."""
_MAX_VALUE = 16_384


@dataclass(frozen=True)
class _Known:
    version: str
    """UID and resourceVersion; empty: there is no such Secret."""
    facts: SecretFacts | None


@dataclass
class SecretWatch:
    """What is known of the Secrets that Profiles name."""

    client: ClusterClient
    shared: Shared
    _known: dict[Name, _Known] = field(default_factory=dict)

    async def state(self, namespace: str, name: str) -> SecretState:
        """Return what is known of a Secret, reading it when it was not read since it changed."""
        known = self._known.get((namespace, name))
        if known is None:
            try:
                body = await self.client.get(SECRETS, namespace, name)
            except ClusterError as error:
                return Unknown(error.message)
            known = _Known(_version(body), read_secret(body) if body is not None else None)
            self._known[(namespace, name)] = known
        return known.facts

    async def run(self) -> None:
        """Look at one Secret after the other, until cancelled."""
        while True:
            named = self._named()
            for stale in self._known.keys() - named.keys():
                del self._known[stale]
            pause = max(ROUND_SECONDS / max(1, len(named)), 1 / MAX_LOOKS_A_SECOND)
            for name in named:
                await asyncio.sleep(pause)
                await self.look(name)
            if not named:
                await asyncio.sleep(ROUND_SECONDS)

    async def look(self, name: Name) -> None:
        """Ask for a Secret's metadata; when it changed, forget it and have the Profiles that name it looked at."""
        known = self._known.get(name)
        if known is None:
            return
        try:
            version = _version(await self.client.get_metadata(SECRETS, *name))
        except ClusterError as error:
            log.info("secret.not_looked_at", namespace=name[0], secret=name[1], error=error.message[:200])
            return
        if version == known.version:
            return
        self._known.pop(name, None)
        log.info("secret.changed", namespace=name[0], secret=name[1], there=bool(version))
        for profile in self._named().get(name, ()):
            self.shared.queue.add(profile_key(*profile))

    def _named(self) -> dict[Name, list[Name]]:
        """Return each Secret that is named, and the Profiles that name it."""
        found: dict[Name, list[Name]] = {}
        for profile in self.shared.cache.profiles.all():
            for secret in {use.secret for use in uses(profile.spec) if use.secret}:
                found.setdefault((profile.namespace, secret), []).append((profile.namespace, profile.name))
        return found


def _version(body: Manifest | None) -> str:
    return "" if body is None else f"{body['metadata']['uid']}/{body['metadata'].get('resourceVersion', '')}"


def read_secret(body: Manifest) -> SecretFacts:
    """Return what is needed of a provider Secret: no key, and no part of one."""
    data = body.get("data") or {}
    hosts = _text(data, "hosts").replace("\n", ",")
    names = tuple(host.strip().lower() for host in hosts.split(",") if host.strip())
    held = frozenset(key for key, value in data.items() if value and value.strip())
    try:
        token_host = (urlsplit(_text(data, "oauth-token-url")).hostname or "").lower()
    except ValueError:
        token_host = ""
    return SecretFacts(body.get("type", ""), held, names, _text(data, "region").strip(), token_host)


def _text(data: Manifest, key: str) -> str:
    try:
        return base64.b64decode(data.get(key) or "").decode()[:_MAX_VALUE]
    except (binascii.Error, UnicodeDecodeError):
        return ""
