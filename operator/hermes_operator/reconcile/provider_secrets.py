"""Which Secrets a Profile's models need, and what is wrong with one. Pure; keys themselves are never held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from hermes_contracts.crd.profile import CustomProvider, ModelChoice, ProfileSpec
from hermes_contracts.names import PROVIDER_SECRET_TYPE
from hermes_contracts.providers import BUILT_IN, CODEX_MODE, SCRIPTED
from hermes_operator.reconcile.model import Unknown

API_KEY = "api-key"
AWS = ("aws-access-key-id", "aws-secret-access-key", "region")
OAUTH = ("oauth-refresh-token", "oauth-token-url", "oauth-client-id")
_BEDROCK = "bedrock_converse"


@dataclass(frozen=True)
class SecretFacts:
    """What is needed of a provider Secret: which keys hold something, and where they may be sent."""

    type: str
    keys: frozenset[str]
    hosts: tuple[str, ...]
    region: str = ""
    token_host: str = ""


SecretState = SecretFacts | Unknown | None
"""None: there is no such Secret."""


@dataclass(frozen=True)
class Use:
    """One place in a Profile that names a model at a provider. `secret` empty: it names none and needs one."""

    field: str
    """Where the Secret is named, or should be: model.fallbacks[0].secretRef."""
    secret: str
    base_url: str
    """May hold `{region}`, which the Secret fills in."""
    aws: bool
    main: bool
    """The Profile answers nothing without it."""


@dataclass(frozen=True)
class Fault:
    """Why a model cannot be asked: reason and message of a condition. `status` None: it cannot be told."""

    reason: str
    message: str
    status: bool | None = False


def uses(spec: ProfileSpec) -> tuple[Use, ...]:
    """Return every use of a provider Secret: the main model's first, then fallbacks, side jobs, unused own providers."""
    auxiliary = spec.model.auxiliary
    choices: list[tuple[str, ModelChoice | None]] = [
        ("model", spec.model),
        *((f"model.fallbacks[{n}]", choice) for n, choice in enumerate(spec.model.fallbacks)),
        *((f"model.choices[{n}]", choice) for n, choice in enumerate(spec.model.choices)),
        ("model.auxiliary.compression", auxiliary.compression),
        ("model.auxiliary.title", auxiliary.title),
        ("model.auxiliary.vision", auxiliary.vision),
        ("model.auxiliary.approval", auxiliary.approval),
    ]
    found = [_use(where, choice, spec) for where, choice in choices if choice is not None and _takes_key(choice.provider)]
    named = {use.secret for use in found}
    for n, provider in enumerate(spec.providers):
        if provider.secret_ref is not None and provider.secret_ref.name not in named:
            where = f"providers[{n}].secretRef"
            found.append(Use(where, provider.secret_ref.name, provider.base_url, provider.api_mode == _BEDROCK, False))
    return tuple(found)


def _takes_key(provider: str) -> bool:
    return provider != SCRIPTED


def _use(where: str, choice: ModelChoice, spec: ProfileSpec) -> Use:
    own: tuple[int, CustomProvider] | None = next(
        ((n, p) for n, p in enumerate(spec.providers) if p.name == choice.provider), None
    )
    built_in = BUILT_IN.get(choice.provider)
    own_mode = None if choice.api_mode == CODEX_MODE else choice.api_mode
    mode = own_mode or (built_in.api_mode if built_in else own[1].api_mode if own else None)
    url = choice.base_url or (built_in.base_url if built_in else own[1].base_url if own else "")
    field, secret = f"{where}.secretRef", choice.secret_ref
    if secret is None and built_in is None and own is not None and own[1].secret_ref is not None:
        field, secret = f"providers[{own[0]}].secretRef", own[1].secret_ref
    return Use(field, secret.name if secret else "", url, mode == _BEDROCK, where == "model")


def faults(spec: ProfileSpec, secrets: Mapping[str, SecretState]) -> tuple[list[Fault], list[Fault]]:
    """Return what is wrong for the main model, and what is wrong for the others."""
    main: list[Fault] = []
    others = [*_misplaced(spec)]
    for use in uses(spec):
        fault = _fault(use, secrets)
        if fault is not None:
            (main if use.main else others).append(fault)
    return main, others


def _misplaced(spec: ProfileSpec) -> list[Fault]:
    """Name side models that answer no single call: the Codex app server anywhere, the scripted model beside a real one."""
    auxiliary = spec.model.auxiliary
    side = [
        *((f"model.fallbacks[{n}]", choice) for n, choice in enumerate(spec.model.fallbacks)),
        *((f"model.choices[{n}]", choice) for n, choice in enumerate(spec.model.choices)),
        ("model.auxiliary.compression", auxiliary.compression),
        ("model.auxiliary.title", auxiliary.title),
        ("model.auxiliary.vision", auxiliary.vision),
        ("model.auxiliary.approval", auxiliary.approval),
    ]
    found = []
    for where, choice in side:
        if choice is None:
            continue
        if choice.api_mode == CODEX_MODE:
            found.append(Fault("ProviderInvalid", f"{where}.apiMode: {CODEX_MODE} is for the main model only; remove it"))
        elif choice.provider == SCRIPTED and spec.model.provider != SCRIPTED:
            found.append(
                Fault("ProviderInvalid", f"{where}.provider: the scripted model stands in for no other; name a real one")
            )
    return found


def _fault(use: Use, secrets: Mapping[str, SecretState]) -> Fault | None:
    if not use.secret:
        return Fault("SecretMissing", f"{use.field} is not set; name a Secret of type {PROVIDER_SECRET_TYPE}")
    secret = secrets.get(use.secret, Unknown("it was not read yet"))
    if isinstance(secret, Unknown):
        return Fault("SecretUnknown", f"{use.field}: Secret {use.secret!r}: {secret.why}", None)
    if secret is None:
        text = f"{use.field}: there is no Secret {use.secret!r} in this namespace; make it"
        return Fault("SecretNotFound", text)
    problem = secret_problem(use, secret)
    return Fault("SecretInvalid", f"{use.field}: Secret {use.secret!r}: {problem}") if problem else None


def secret_problem(use: Use, secret: SecretFacts) -> str | None:
    """Return what is wrong with a provider Secret for this use, or None."""
    if secret.type != PROVIDER_SECRET_TYPE:
        return f"its type is {secret.type!r}; make it again with type {PROVIDER_SECRET_TYPE}"
    missing = _missing_keys(use, secret)
    if missing is not None:
        return missing
    if not secret.hosts:
        return "the key 'hosts' is missing or empty; name the hosts this key may be sent to, separated by commas"
    if "{region}" in use.base_url and not secret.region:
        return "the key 'region' is missing or empty, and the provider's address needs it"
    try:
        host = (urlsplit(use.base_url.replace("{region}", secret.region)).hostname or "").lower()
    except ValueError:
        return f"{use.base_url!r} is no address"
    if host not in secret.hosts:
        return f"its 'hosts' does not name {host}, where this Profile would send the key"
    if OAUTH[0] in secret.keys and secret.token_host not in secret.hosts:
        return f"its 'hosts' does not name {secret.token_host or 'the host'} of 'oauth-token-url'"
    return None


def _missing_keys(use: Use, secret: SecretFacts) -> str | None:
    held = [kind for kind in (API_KEY, AWS[0], OAUTH[0]) if kind in secret.keys]
    if len(held) > 1:
        return f"it holds {' and '.join(repr(kind) for kind in held)}; keep one of them"
    if use.aws:
        wanted: tuple[str, ...] = AWS
    elif OAUTH[0] in secret.keys:
        wanted = OAUTH
    else:
        wanted = (API_KEY,)
    missing = [key for key in wanted if key not in secret.keys]
    return f"the key {missing[0]!r} is missing or empty" if missing else None
