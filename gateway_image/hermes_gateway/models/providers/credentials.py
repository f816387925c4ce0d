"""The credential a wire needs, out of a target's."""

from __future__ import annotations

from hermes_gateway.models.providers.errors import ProviderError, Reason
from hermes_gateway.models.target import ApiKey, Target


def api_key(target: Target) -> str:
    """Return the key. Raises ProviderError AUTH when the target has another kind of credential."""
    if isinstance(target.credential, ApiKey):
        return target.credential.value
    raise ProviderError(Reason.AUTH, f"Provider {target.provider} needs an API key: put `api-key` into its Secret.")
