"""Where a model of a Profile is: provider, wire format, address. Pure; every refusal names the field to change."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import httpx2

from hermes_contracts.crd.profile import CustomProvider, ModelChoice, ProfileSpec
from hermes_contracts.errors import HermesError
from hermes_contracts.model_api import Purpose
from hermes_contracts.providers import BUILT_IN, CODEX_MODE, SCRIPTED, WireFormat
from hermes_gateway.models.provider_secret import HOSTS, REGION, ProviderSecret, not_configured
from hermes_gateway.models.target import ApiKey, AwsKeys, Credential

_ASKED_BY_CODEX: dict[str, WireFormat] = {"openai": "responses"}
"""Formats in which the Codex app server's models are asked, where that is not the provider's default: some have no other."""
SCRIPTED_AWS = AwsKeys("scripted", "scripted", None, "us-east-1")
SCRIPTED_KEY = ApiKey("none")


@dataclass(frozen=True)
class Place:
    """A model as the Profile names it. `field` says where in the Profile it stands."""

    field: str
    choice: ModelChoice

    @property
    def facts_field(self) -> str:
        """Return where the Profile may say more about the model."""
        return f"{self.field}.facts"


@dataclass(frozen=True)
class Route:
    """A model whose provider is known. `base_url` may still hold `{region}`; `secret` is None for the scripted model."""

    place: Place
    api_mode: WireFormat
    base_url: str
    secret: str | None
    url_field: str = ""
    """Where in the Profile the address stands."""

    @property
    def provider(self) -> str:
        """Return the provider, as the Profile names it."""
        return self.place.choice.provider

    @property
    def model(self) -> str:
        """Return the model, as its provider calls it."""
        return self.place.choice.name


def places(spec: ProfileSpec, purpose: Purpose, chosen: str = "") -> tuple[Place, ...]:
    """Return whom a call may be sent to, in order: the side job's own model, the main model, its fallbacks.

    A `chosen` model that the Profile offers takes the main model's place; one that it does not offer (any more) does not.
    """
    model = spec.model
    offered = [Place(f"model.choices[{index}]", choice) for index, choice in enumerate(model.choices)]
    found = [next((place for place in offered if place.choice.name == chosen), Place("model", model))]
    found += [Place(f"model.fallbacks[{index}]", choice) for index, choice in enumerate(model.fallbacks)]
    auxiliary = {
        Purpose.COMPRESSION: model.auxiliary.compression,
        Purpose.TITLE: model.auxiliary.title,
        Purpose.VISION: model.auxiliary.vision,
        Purpose.APPROVAL: model.auxiliary.approval,
    }.get(purpose)
    if auxiliary is not None:
        found.insert(0, Place(f"model.auxiliary.{purpose.value}", auxiliary))
    return tuple(found)


def route(place: Place, spec: ProfileSpec, scripted_url: str) -> Route:
    """Return a model's provider, wire format and address. Raises HermesError NOT_CONFIGURED."""
    choice = place.choice
    if choice.api_mode == CODEX_MODE and place.field != "model":
        raise not_configured(f"{place.field}.apiMode: {CODEX_MODE} is for the main model only; remove it.")
    if choice.provider == SCRIPTED:
        return _scripted(place, spec, scripted_url)
    custom = _custom(spec.providers, choice.provider)
    built_in = BUILT_IN.get(choice.provider)
    if built_in is not None:
        mode, url, secret = built_in.api_mode, built_in.base_url, None
    elif custom is not None:
        mode, url = custom.api_mode, custom.base_url
        secret = custom.secret_ref.name if custom.secret_ref else None
    else:
        raise not_configured(
            f"{place.field}.provider: {choice.provider} is neither a built-in provider nor one of spec.providers."
        )
    secret = choice.secret_ref.name if choice.secret_ref else secret
    if secret is None:
        raise not_configured(f"The Profile names no Secret for {choice.provider}: set {place.field}.secretRef.")
    own = choice.base_url is not None or built_in is not None
    url_field = f"{place.field}.baseUrl" if own else f"spec.providers[{choice.provider}].baseUrl"
    return Route(place, _format(choice, mode), choice.base_url or url, secret, url_field)


def _format(choice: ModelChoice, default: WireFormat) -> WireFormat:
    """Return how a provider is asked: a main model whose turns the Codex app server runs is asked as any other."""
    if choice.api_mode == CODEX_MODE:
        return _ASKED_BY_CODEX.get(choice.provider, default)
    return choice.api_mode or default


def _custom(providers: Sequence[CustomProvider], name: str) -> CustomProvider | None:
    return next((provider for provider in providers if provider.name == name), None)


def _scripted(place: Place, spec: ProfileSpec, scripted_url: str) -> Route:
    if spec.model.provider != SCRIPTED:
        raise not_configured(f"{place.field}.provider: the scripted model stands in for no other model.")
    mode = _format(place.choice, "chat_completions")
    # Two of the wire formats have the version in their paths, not in their base addresses.
    url = scripted_url if mode in ("chat_completions", "responses") else scripted_url.removesuffix("/v1")
    return Route(place, mode, url, None)


def address(found: Route, secret: ProviderSecret, allowed_private_hosts: Collection[str]) -> str:
    """Return the base URL to which the Secret's content may be sent. Raises HermesError NOT_CONFIGURED."""
    field = found.url_field
    text = found.base_url
    if "{region}" in text:
        if secret.region is None:
            raise not_configured(f"Secret {secret.name} has no key `{REGION}`, which the address of {found.provider} needs.")
        text = text.replace("{region}", secret.region)
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError) as error:
        raise not_configured(f"{field} is not a URL.") from error
    host = url.host.lower()
    if not host or url.userinfo or url.query or url.fragment:
        raise not_configured(f"{field} must be scheme, host and path, without user, query or fragment.")
    check_host(field, url.scheme, host, secret, allowed_private_hosts)
    return text


def check_host(field: str, scheme: str, host: str, secret: ProviderSecret, allowed_private_hosts: Collection[str]) -> None:
    """Refuse a host that the Secret does not name, and one without TLS. Raises HermesError NOT_CONFIGURED."""
    if scheme != "https" and host not in {allowed.lower() for allowed in allowed_private_hosts}:
        raise not_configured(f"{field} must be https; an administrator can allow plain http in allowedPrivateHosts.")
    if host not in secret.hosts:
        raise not_configured(f"Secret {secret.name} does not name host {host} in `{HOSTS}`: its key is not sent there.")


def fits(found: Route, secret: ProviderSecret) -> HermesError | None:
    """Tell what is wrong with a Secret for a wire format: only Bedrock's takes AWS keys."""
    if secret.aws is None or found.api_mode == "bedrock_converse":
        return None
    return not_configured(f"Secret {secret.name} holds AWS keys, and {found.api_mode} needs `api-key`.")


def scripted_credential(mode: WireFormat) -> Credential:
    """Return what the scripted model is shown: it checks nothing."""
    return SCRIPTED_AWS if mode == "bedrock_converse" else SCRIPTED_KEY
