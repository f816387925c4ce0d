"""Who serves a call: the Profile's models in order, those that failed lately last, and what each of them needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from hermes_contracts.crd.profile import ProfileSpec
from hermes_contracts.errors import HermesError
from hermes_contracts.model_api import ModelInfo, Purpose
from hermes_contracts.providers import BUILT_IN, SCRIPTED, ApiMode
from hermes_gateway.models.budgets import limits_money
from hermes_gateway.models.catalog import MINIMUM_WINDOW, Knowledge, know
from hermes_gateway.models.health import KeyPool, ModelHealth
from hermes_gateway.models.logins import Logins
from hermes_gateway.models.profiles import ProfileSource
from hermes_gateway.models.provider_secret import OAuthLogin, ProviderSecret, not_configured
from hermes_gateway.models.providers.base import Provider
from hermes_gateway.models.resolution import Place, Route, address, fits, places, route, scripted_credential
from hermes_gateway.models.target import ApiKey, Credential, KnownModel, Target


@dataclass(frozen=True)
class Candidate:
    """A model that may serve a call."""

    namespace: str
    route: Route
    knowledge: Knowledge

    @property
    def health_key(self) -> tuple[str, ...]:
        """Return what cools together: a model at an address, for one tenant's key."""
        return (self.namespace, self.route.secret or "", self.route.base_url, self.route.model)


@dataclass(frozen=True)
class Choice:
    """Candidates in the order in which they are asked, and the models that cannot be asked at all, with the reason."""

    candidates: tuple[Candidate, ...]
    problems: tuple[tuple[Place, HermesError], ...]


@dataclass
class Tried:
    """What a call has tried at one candidate, as far as keys go."""

    keys: set[str] = field(default_factory=set)
    rejected_token: str = ""


@dataclass(frozen=True)
class Lease:
    """A target that may be called now. `pool` names the Secret whose `key` it uses; `spare_keys`: another could be used."""

    target: Target
    provider: Provider
    pool: str = ""
    key: str = field(repr=False, default="")
    keys: tuple[str, ...] = field(repr=False, default=())
    """All of the Secret's."""
    sole_key: bool = True
    spare_keys: bool = False
    login: bool = False


def own_price(found: Route) -> bool:
    """Tell whether a provider's list prices hold: at its own address only."""
    built_in = BUILT_IN.get(found.provider)
    return built_in is not None and urlsplit(found.base_url).hostname == urlsplit(built_in.base_url).hostname


def candidate(namespace: str, place: Place, spec: ProfileSpec, purpose: Purpose, scripted_url: str) -> Candidate:
    """Return a model as one that may serve. Raises HermesError NOT_CONFIGURED that says what to change."""
    found = route(place, spec, scripted_url)
    facts = place.choice.facts
    knowledge = know(found.provider, found.model, facts)
    if found.provider != SCRIPTED and not own_price(found) and (facts is None or facts.price is None):
        knowledge = Knowledge(replace(knowledge.model, price=None))
    window = knowledge.model.context_window
    if purpose is Purpose.TURN and window < MINIMUM_WINDOW and (facts is None or facts.context_window is None):
        raise not_configured(
            f"{found.model} reads {window:,} tokens, and an agent needs {MINIMUM_WINDOW:,}: choose another model, or set "
            f"{place.facts_field}.contextWindow if that is known to be enough."
        )
    if purpose is Purpose.VISION and not knowledge.model.vision:
        raise not_configured(
            f"{found.model} is not known to take pictures: name a model that does in model.auxiliary.vision, or set "
            f"{place.facts_field}.vision if this one does."
        )
    if knowledge.model.price is None and limits_money(spec.budgets):
        raise not_configured(
            f"The Profile limits money, and the price of {found.model} is not known: set {place.facts_field}.price, or "
            "limit tokens instead."
        )
    return Candidate(namespace, found, knowledge)


@dataclass(frozen=True)
class Backends:
    """Providers by wire format, and the scripted model's apart: its address is the installation's own, so may be private."""

    providers: Mapping[ApiMode, Provider]
    scripted: Mapping[ApiMode, Provider]
    scripted_url: str
    allowed_private_hosts: Set[str]


class Routes:
    """Finds candidates, and leases their keys."""

    def __init__(
        self, profiles: ProfileSource, backends: Backends, health: ModelHealth, keys: KeyPool, logins: Logins
    ) -> None:
        self.profiles = profiles
        self.health = health
        self.keys = keys
        self._backends = backends
        self._logins = logins

    def choose(
        self, namespace: str, spec: ProfileSpec, purpose: Purpose, passed_over: Collection[str] = (), chosen: str = ""
    ) -> Choice:
        """Return who is asked, in order, a person's `chosen` model first; not those whose places are `passed_over`."""
        found: list[Candidate] = []
        problems: list[tuple[Place, HermesError]] = []
        for place in places(spec, purpose, chosen):
            if place.field in passed_over:
                continue
            try:
                found.append(candidate(namespace, place, spec, purpose, self._backends.scripted_url))
            except HermesError as error:
                problems.append((place, error))
        if len(found) > 1:
            found.sort(key=lambda one: self.health.cooling(one.health_key))
        return Choice(tuple(found), tuple(problems))

    def info(self, namespace: str, spec: ProfileSpec, purpose: Purpose, chosen: str = "") -> ModelInfo:
        """Return what is known of the model that would serve now. Raises HermesError NOT_CONFIGURED."""
        choice = self.choose(namespace, spec, purpose, chosen=chosen)
        if not choice.candidates:
            raise choice.problems[0][1]
        found = choice.candidates[0]
        known: KnownModel = found.knowledge.model
        return ModelInfo(
            provider=found.route.provider, model=found.route.model, api_mode=found.route.api_mode,
            context_window=known.context_window, max_output_tokens=known.max_output_tokens, vision=known.vision,
            reasoning=known.reasoning, prompt_cache=known.prompt_cache,
        )  # fmt: skip

    async def lease(self, found: Candidate, tried: Tried) -> Lease:
        """Return a target with a key to use. Raises HermesError NOT_CONFIGURED, AUTH or UNAVAILABLE."""
        if found.route.secret is None:
            credential = scripted_credential(found.route.api_mode)
            target = _target(found, found.route.base_url, credential)
            return Lease(target, self._backends.scripted[found.route.api_mode])
        secret = await self.profiles.secret(found.namespace, found.route.secret)
        base_url = address(found.route, secret, self._backends.allowed_private_hosts)
        if (problem := fits(found.route, secret)) is not None:
            raise problem
        provider = self._backends.providers[found.route.api_mode]
        owner = f"{found.namespace}/{secret.name}"
        if secret.aws is not None:
            target = _target(found, base_url, secret.aws)
            return Lease(target, provider, owner, secret.aws.access_key_id, (secret.aws.access_key_id,))
        if secret.login is not None:
            return await self._by_login(found, base_url, provider, secret, secret.login, tried)
        key = self.keys.pick(owner, secret.api_keys, tried.keys)
        spare = self.keys.spare(owner, secret.api_keys, tried.keys | {key})
        target = _target(found, base_url, ApiKey(key))
        return Lease(target, provider, owner, key, secret.api_keys, sole_key=len(secret.api_keys) == 1, spare_keys=spare)

    async def _by_login(
        self, found: Candidate, base_url: str, provider: Provider, secret: ProviderSecret, login: OAuthLogin, tried: Tried
    ) -> Lease:
        rejected = tried.rejected_token
        token = await self._logins.access_token(found.namespace, secret, login, rejected=rejected)
        # A token that was refused is renewed once; a second refusal is not about its age.
        return Lease(
            _target(found, base_url, ApiKey(token)), provider, f"{found.namespace}/{secret.name}", token,
            spare_keys=not rejected, login=True,
        )  # fmt: skip

    @contextmanager
    def in_use(self, lease: Lease) -> Iterator[None]:
        """Count a key as used for as long as a call runs."""
        if not lease.pool:
            yield
            return
        self.keys.taken(lease.pool, lease.key)
        try:
            yield
        finally:
            self.keys.released(lease.pool, lease.key)


def _target(found: Candidate, base_url: str, credential: Credential) -> Target:
    choice = found.route.place.choice
    return Target(
        provider=found.route.provider, api_mode=found.route.api_mode, model=choice.name, base_url=base_url,
        credential=credential, known=found.knowledge.model, max_output_tokens=choice.max_output_tokens,
        effort=choice.reasoning_effort,
    )  # fmt: skip
