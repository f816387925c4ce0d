"""Where Profiles and provider Secrets come from."""

from __future__ import annotations

from typing import Protocol

from hermes_contracts.crd.profile import ProfileSpec
from hermes_gateway.models.provider_secret import ProviderSecret


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
