"""Which provider, key and address serve a call: decided from the Profile and its Secret, before anything is sent."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

import httpx2

from hermes_contracts.crd.profile import ModelSettings, Provider
from hermes_gateway.models.profiles import ProviderSecret, not_configured

Wire = Literal["openai", "anthropic"]

DEFAULT_URLS: dict[Wire, str] = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
_NO_KEY = "none"


@dataclass(frozen=True)
class Target:
    """Where a call goes. `max_output_tokens` None leaves it to the provider."""

    provider: Provider
    wire: Wire
    model: str
    base_url: str
    api_key: str = field(repr=False)
    max_output_tokens: int | None = None


def scripted_target(model: ModelSettings, url: str) -> Target:
    """Return the bundled scripted model's target: no key, an address of the installation's own."""
    return Target("scripted", "openai", model.name, url, _NO_KEY, model.max_output_tokens)


def decide_target(model: ModelSettings, secret: ProviderSecret, allowed_private_hosts: Collection[str]) -> Target:
    """Return the target of a Profile's model. Raises HermesError NOT_CONFIGURED when the key may not go there."""
    wire: Wire = "anthropic" if model.provider == "anthropic" else "openai"
    base_url = model.base_url or DEFAULT_URLS[wire]
    try:
        url = httpx2.URL(base_url)
    except (httpx2.InvalidURL, ValueError) as error:
        raise not_configured("model.baseUrl is not a URL") from error
    host = url.host.lower()
    if not host or url.userinfo or url.query or url.fragment:
        raise not_configured("model.baseUrl must be scheme, host and path, without user, query or fragment")
    if url.scheme != "https" and host not in {allowed.lower() for allowed in allowed_private_hosts}:
        raise not_configured("model.baseUrl must be https; an administrator can allow plain http in allowedPrivateHosts")
    if host not in secret.hosts:
        name = model.secret_ref.name if model.secret_ref else ""
        raise not_configured(f"Secret {name} does not name host {host} in `hosts`: its key is not sent there")
    return Target(model.provider, wire, model.name, base_url, secret.api_key, model.max_output_tokens)
