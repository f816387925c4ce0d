"""Contents of the Secrets that one installation shares: pure, apart from drawing random bytes.

What exists is never replaced, but for what a release lets our services do on the bus: that is signed anew, with the
same key. A key that follows from others is derived; one that cannot be, because what was made from it is still there, is
refused with a sentence that says what to restore.
"""

from __future__ import annotations

import base64
import hashlib
import secrets as random_source
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hermes_contracts.access import ApiKeyRecord, ApiKeys
from hermes_contracts.bus_permissions import Role, service_permissions
from hermes_contracts.installation import (
    API_KEYS,
    BUS_GATEWAY,
    BUS_KEYS,
    BUS_MODELS,
    BUS_SERVER,
    BUS_STORE,
    FIRST_API_KEY,
    GATEWAY_SIGNING,
    POSTGRES,
    TOKEN_PRIVATE,
    TOKEN_PUBLIC,
    InstallationSecret,
)
from hermes_contracts.names import DnsLabel, ObjectName
from hermes_service.bus import BusCredentials
from hermes_service.bus_keys import BusKeys, allows, public_key_of
from hermes_service.signing import new_signing_seed

Data = Mapping[str, str]
"""Decoded keys of one Secret."""
_Fill = Callable[[InstallationSecret, Data], None]
_Content = Callable[[InstallationSecret], Data]

_BUS_USERS = {BUS_GATEWAY: Role.GATEWAY, BUS_STORE: Role.STORE, BUS_MODELS: Role.MODELS}
_MADE_FROM = {
    BUS_KEYS: (BUS_SERVER, BUS_GATEWAY, BUS_STORE, BUS_MODELS),
    TOKEN_PRIVATE: (TOKEN_PUBLIC,),
}


class BootstrapError(Exception):
    """The Secrets that exist do not fit each other; the message says what to restore or delete."""


@dataclass(frozen=True)
class FirstKey:
    """Whom the first API key belongs to and what it opens."""

    owner: str
    namespace: DnsLabel
    profile: ObjectName


def missing_data(found: Mapping[InstallationSecret, Data], release: str, first: FirstKey) -> dict[InstallationSecret, Data]:
    """Return the whole new content of each Secret that lacks a key. Raises BootstrapError."""
    for source, made in _MADE_FROM.items():
        lacking = [key for key in source.keys if key not in found.get(source, {})]
        left = [secret.name(release) for secret in made if found.get(secret)]
        if lacking and left:
            raise BootstrapError(
                f"Secret {source.name(release)} lacks {', '.join(lacking)}, and {', '.join(left)} were made from it: "
                f"restore {source.name(release)} from a backup, or delete those to have all of them made anew"
            )
    result: dict[InstallationSecret, Data] = {}

    def content(secret: InstallationSecret) -> Data:
        return result.get(secret) or found.get(secret, {})

    def fill(secret: InstallationSecret, made: Data) -> None:
        have = found.get(secret, {})
        if any(key not in have for key in secret.keys):
            result[secret] = {**made, **have}

    keys = BusKeys.generate()
    fill(BUS_KEYS, dict(zip(BUS_KEYS.keys, (keys.operator_seed, keys.account_seed, keys.system_seed), strict=True)))
    bus_keys = read_bus_keys(content(BUS_KEYS))
    if "auth.conf" not in found.get(BUS_SERVER, {}):
        fill(BUS_SERVER, {"auth.conf": bus_keys.server_config()})
    for secret, role in _BUS_USERS.items():
        if "bus.creds" not in found.get(secret, {}):
            fill(secret, {"bus.creds": bus_keys.user(role.value, service_permissions(role)).render()})
        elif (renewed := _renewed(bus_keys, role, found[secret]["bus.creds"])) is not None:
            result[secret] = {**found[secret], "bus.creds": renewed}
    fill(POSTGRES, {key: random_source.token_urlsafe(32) for key in POSTGRES.keys})
    _fill_tokens(fill, content)
    fill(GATEWAY_SIGNING, {"seed": new_signing_seed()})
    _fill_api_keys(found, fill, content, first)
    return result


def _renewed(keys: BusKeys, role: Role, rendered: str) -> str | None:
    """Return a service's credential with what it may do in this release, its key as it was; None when it is so already."""
    permissions = service_permissions(role)
    try:
        old = BusCredentials.parse(rendered)
    except ValueError:
        return None
    if allows(old.jwt, permissions):
        return None
    return BusCredentials(keys.user_jwt(public_key_of(old.seed), role.value, permissions), old.seed).render()


def read_bus_keys(data: Data) -> BusKeys:
    """Return the keys of a complete `bus-keys` Secret."""
    return BusKeys(*(data[key] for key in BUS_KEYS.keys))


def _fill_tokens(fill: _Fill, content: _Content) -> None:
    private = Ed25519PrivateKey.generate()
    pem = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    fill(TOKEN_PRIVATE, {"private.pem": pem.decode()})
    kept = serialization.load_pem_private_key(content(TOKEN_PRIVATE)["private.pem"].encode(), password=None)
    public = kept.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    fill(TOKEN_PUBLIC, {"public.pem": public.decode()})


def _fill_api_keys(found: Mapping[InstallationSecret, Data], fill: _Fill, content: _Content, first: FirstKey) -> None:
    """Make the first key, or its record. Where records exist and the key does not, a person took the key away: leave it."""
    if found.get(API_KEYS) and not found.get(FIRST_API_KEY):
        return
    fill(FIRST_API_KEY, {"api-key": "hermes-" + random_source.token_urlsafe(32)})
    digest = hashlib.sha256(content(FIRST_API_KEY)["api-key"].encode()).hexdigest()
    record = ApiKeyRecord(id="first", sha256=digest, owner=first.owner, namespace=first.namespace, profiles=(first.profile,))
    fill(API_KEYS, {"keys.json": ApiKeys(keys=(record,)).model_dump_json(indent=2)})


def encode(data: Data) -> dict[str, str]:
    """Return a Secret's `data`."""
    return {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}


def decode(data: Mapping[str, str] | None) -> dict[str, str]:
    """Read a Secret's `data`. Raises ValueError for what is not text."""
    return {key: base64.b64decode(text).decode() for key, text in (data or {}).items()}
