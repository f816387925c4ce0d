"""Where one call goes: what routing decided and a provider needs to know. Nothing in it is ever logged whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from hermes_contracts.conversation import MediaType
from hermes_contracts.crd.profile import Effort
from hermes_contracts.providers import ApiMode


@dataclass(frozen=True)
class ApiKey:
    """A key or an access token, sent as the provider's protocol says."""

    value: str = field(repr=False)


@dataclass(frozen=True)
class AwsKeys:
    """Signs requests to Bedrock."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(repr=False)
    region: str


Credential = ApiKey | AwsKeys


@dataclass(frozen=True)
class Price:
    """US dollars for a million tokens."""

    input: Decimal
    output: Decimal
    cached_input: Decimal
    cache_write: Decimal


@dataclass(frozen=True)
class KnownModel:
    """What is known of a model, from the table, its endpoint and the Profile."""

    context_window: int
    """Tokens."""
    max_output_tokens: int
    vision: bool
    reasoning: bool
    """Whether it takes a reasoning effort."""
    prompt_cache: bool
    """Whether its provider wants cache markers (anthropic_messages, bedrock_converse, a Claude at OpenRouter) or a cache
    key (responses)."""
    price: Price | None = None


@dataclass(frozen=True)
class Target:
    """One model at one address with one credential."""

    provider: str
    """As the Profile names it."""
    api_mode: ApiMode
    model: str
    base_url: str
    credential: Credential
    known: KnownModel
    max_output_tokens: int | None = None
    """What the Profile allows; None leaves it to the provider."""
    effort: Effort = "Default"

    @property
    def origin(self) -> str:
        """Return what marks reasoning that this target made: it is replayed to the same origin only."""
        return f"{self.api_mode}/{self.model}"


@dataclass(frozen=True)
class Medium:
    """The bytes of a picture."""

    media_type: MediaType
    data: bytes
