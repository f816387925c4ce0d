"""Where Profiles and provider Secrets come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from hermes_contracts.crd.profile import ProfileSpec
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import PROVIDER_SECRET_TYPE

API_KEY = "api-key"
HOSTS = "hosts"


@dataclass(frozen=True)
class ProviderSecret:
    """A provider's key and the hosts it may be sent to, in lower case."""

    api_key: str = field(repr=False)
    hosts: frozenset[str]


class ProfileSource(Protocol):
    """Gives Profiles and Secrets by namespace and name."""

    def problem(self) -> str | None:
        """Return None when Profiles are known, else one sentence that says what is missing."""
        ...

    async def profile(self, namespace: str, name: str) -> ProfileSpec | None:
        """Return a Profile, or None when there is none. Raises HermesError UNAVAILABLE when that cannot be told."""
        ...

    async def secret(self, namespace: str, name: str) -> ProviderSecret:
        """Return a Secret. Raises HermesError NOT_CONFIGURED or UNAVAILABLE."""
        ...


def read_secret(name: str, kind: str | None, data: dict[str, str]) -> ProviderSecret:
    """Check a Secret's type and keys. Raises HermesError NOT_CONFIGURED that names what to change, never a value."""
    if kind != PROVIDER_SECRET_TYPE:
        raise not_configured(f"Secret {name} must be of type {PROVIDER_SECRET_TYPE}")
    for key in (API_KEY, HOSTS):
        if not data.get(key, "").strip():
            raise not_configured(f"Secret {name} has no key `{key}`")
    api_key = data[API_KEY].strip()
    if not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise not_configured(f"Secret {name}: `{API_KEY}` holds characters that no key has")
    hosts = frozenset(host.strip().lower() for host in data[HOSTS].split(",") if host.strip())
    return ProviderSecret(api_key=api_key, hosts=hosts)


def not_configured(message: str) -> HermesError:
    """Make the error for something that a person has to set up."""
    return HermesError(ErrorCode.NOT_CONFIGURED, message)


def missing_secret(namespace: str, name: str) -> HermesError:
    """Make the error for a Secret that is not there."""
    return not_configured(f"Secret {name} is not in namespace {namespace}: create it with type {PROVIDER_SECRET_TYPE}")
