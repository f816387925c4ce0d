"""Which target and which provider serve a Profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hermes_contracts.crd.profile import ProfileSpec
from hermes_gateway.models.profiles import ProfileSource, not_configured
from hermes_gateway.models.providers.base import Provider
from hermes_gateway.models.targets import Target, Wire, decide_target, scripted_target


@dataclass(frozen=True)
class Routes:
    """Providers by wire format, and the scripted model apart: its address is the installation's own, so may be private."""

    profiles: ProfileSource
    providers: Mapping[Wire, Provider]
    scripted: Provider
    scripted_url: str
    allowed_private_hosts: frozenset[str]

    async def find(self, namespace: str, profile: ProfileSpec) -> tuple[Target, Provider]:
        """Return where a Profile's calls go. Raises HermesError NOT_CONFIGURED or UNAVAILABLE."""
        model = profile.model
        if model.provider == "scripted":
            return scripted_target(model, self.scripted_url), self.scripted
        if model.secret_ref is None:
            raise not_configured("the Profile names no Secret: set model.secretRef")
        secret = await self.profiles.secret(namespace, model.secret_ref.name)
        target = decide_target(model, secret, self.allowed_private_hosts)
        return target, self.providers[target.wire]
