"""What a Secret of type hermes.run/provider may hold: keys, AWS keys or a login, and the hosts these may be sent to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import PROVIDER_SECRET_TYPE
from hermes_gateway.models.target import AwsKeys

API_KEY = "api-key"
HOSTS = "hosts"
REGION = "region"
_AWS_ID, _AWS_SECRET, _AWS_TOKEN = "aws-access-key-id", "aws-secret-access-key", "aws-session-token"
_REFRESH, _TOKEN_URL, _CLIENT_ID, _CLIENT_SECRET = (
    "oauth-refresh-token", "oauth-token-url", "oauth-client-id", "oauth-client-secret",
)  # fmt: skip
_KEY_NAME = re.compile(r"^api-key(-[1-9][0-9]?)?$")
_REGION = re.compile(r"^[a-z]{2}(-[a-z]+)+-[0-9]{1,2}$")
_MAX_VALUE = 16_384


@dataclass(frozen=True)
class OAuthLogin:
    """A login that is renewed at `token_url`. `refresh_token` is the first one: providers may hand out others later."""

    refresh_token: str = field(repr=False)
    token_url: str
    client_id: str
    client_secret: str | None = field(repr=False, default=None)


@dataclass(frozen=True)
class ProviderSecret:
    """Exactly one of `api_keys`, `aws` and `login` is there. Hosts are in lower case."""

    name: str
    hosts: frozenset[str]
    api_keys: tuple[str, ...] = field(repr=False, default=())
    aws: AwsKeys | None = None
    login: OAuthLogin | None = None
    region: str | None = None


def not_configured(message: str) -> HermesError:
    """Make the error for something that a person has to set up."""
    return HermesError(ErrorCode.NOT_CONFIGURED, message)


def missing_secret(namespace: str, name: str) -> HermesError:
    """Make the error for a Secret that is not there."""
    return not_configured(f"Secret {name} is not in namespace {namespace}: create it with type {PROVIDER_SECRET_TYPE}.")


def read_secret(name: str, kind: str | None, data: Mapping[str, str]) -> ProviderSecret:
    """Check a Secret's type and keys. Raises HermesError NOT_CONFIGURED that names what to change, never a value."""
    if kind != PROVIDER_SECRET_TYPE:
        raise not_configured(f"Secret {name} must be of type {PROVIDER_SECRET_TYPE}.")
    values = {key: value.strip() for key, value in data.items() if value.strip()}
    kinds = [key for key in (API_KEY, _AWS_ID, _REFRESH) if key in values]
    if not kinds:
        raise not_configured(f"Secret {name} has no key `{API_KEY}` (nor `{_AWS_ID}`, nor `{_REFRESH}`).")
    if len(kinds) > 1:
        raise not_configured(f"Secret {name} holds {' and '.join(f'`{key}`' for key in kinds)}: keep one of them.")
    if HOSTS not in values:
        raise not_configured(f"Secret {name} has no key `{HOSTS}`.")
    hosts = frozenset(host.strip().lower() for host in values[HOSTS].split(",") if host.strip())
    region = values.get(REGION)
    if region is not None and not _REGION.match(region):
        raise not_configured(f"Secret {name}: `{REGION}` is not the name of a region, such as eu-central-1.")
    if kinds[0] == API_KEY:
        names = sorted((key for key in values if _KEY_NAME.match(key)), key=lambda key: int(key[8:] or 1))
        keys = tuple(dict.fromkeys(_printable(name, key, values[key]) for key in names))
        return ProviderSecret(name, hosts, api_keys=keys, region=region)
    if kinds[0] == _AWS_ID:
        return ProviderSecret(name, hosts, aws=_aws(name, values, region), region=region)
    return ProviderSecret(name, hosts, login=_login(name, values, hosts), region=region)


def _aws(name: str, values: Mapping[str, str], region: str | None) -> AwsKeys:
    _need(name, values, _AWS_SECRET)
    if region is None:
        raise not_configured(f"Secret {name} has no key `{REGION}`.")
    token = values.get(_AWS_TOKEN)
    return AwsKeys(
        _printable(name, _AWS_ID, values[_AWS_ID]),
        _printable(name, _AWS_SECRET, values[_AWS_SECRET]),
        None if token is None else _printable(name, _AWS_TOKEN, token),
        region,
    )


def _login(name: str, values: Mapping[str, str], hosts: frozenset[str]) -> OAuthLogin:
    _need(name, values, _TOKEN_URL, _CLIENT_ID)
    try:
        url = urlsplit(values[_TOKEN_URL])
        host = (url.hostname or "").lower()
    except ValueError as error:
        raise not_configured(f"Secret {name}: `{_TOKEN_URL}` is not a URL.") from error
    if url.scheme not in ("https", "http") or not host or url.username is not None or url.fragment:
        raise not_configured(f"Secret {name}: `{_TOKEN_URL}` must be a URL without user and fragment.")
    if host not in hosts:
        raise not_configured(f"Secret {name} does not name host {host} of `{_TOKEN_URL}` in `{HOSTS}`.")
    secret = values.get(_CLIENT_SECRET)
    return OAuthLogin(
        _printable(name, _REFRESH, values[_REFRESH]),
        values[_TOKEN_URL],
        _printable(name, _CLIENT_ID, values[_CLIENT_ID]),
        None if secret is None else _printable(name, _CLIENT_SECRET, secret),
    )


def _need(name: str, values: Mapping[str, str], *keys: str) -> None:
    for key in keys:
        if key not in values:
            raise not_configured(f"Secret {name} has no key `{key}`.")


def _printable(name: str, key: str, value: str) -> str:
    if not value.isascii() or not value.isprintable() or " " in value or len(value) > _MAX_VALUE:
        raise not_configured(f"Secret {name}: `{key}` holds characters that no key has.")
    return value
