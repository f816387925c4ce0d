"""What may stand in a provider's Secret."""

from __future__ import annotations

import pytest

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.models.provider_secret import ProviderSecret, read_secret

AWS = {"aws-access-key-id": "AKIA", "aws-secret-access-key": "s", "region": "us-east-1"}
LOGIN = {"oauth-refresh-token": "r", "oauth-token-url": "https://auth.example/token", "oauth-client-id": "c"}


def _read(hosts: str = "h.example", **data: str) -> ProviderSecret:
    return read_secret("s", "hermes.run/provider", {"hosts": hosts, **data})


def test_a_pool_of_keys_in_order_and_without_doubles() -> None:
    found = _read(**{"api-key": "one\n", "api-key-10": "ten", "api-key-2": "two", "api-key-3": "one", "api-key-x": "no"})
    assert found.api_keys == ("one", "two", "ten")
    assert found.hosts == {"h.example"}


def test_aws_keys_and_logins() -> None:
    aws = _read(**AWS, **{"aws-session-token": "t"}).aws
    assert aws is not None and (aws.region, aws.session_token) == ("us-east-1", "t")
    login = _read("api.example, AUTH.example", **LOGIN, **{"oauth-client-secret": "x"}).login
    assert login is not None and (login.refresh_token, login.client_id, login.client_secret) == ("r", "c", "x")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({}, "no key `api-key`"),
        ({"api-key": " "}, "no key `api-key`"),
        ({"api-key": "k", **AWS}, "keep one of them"),
        ({"api-key": "k", **LOGIN}, "keep one of them"),
        ({"api-key": "two words"}, "characters that no key has"),
        ({"api-key": "k", "api-key-2": "tab\tbed"}, "`api-key-2` holds"),
        ({"api-key": "k" * 20_000}, "characters"),
        ({**AWS, "region": ""}, "no key `region`"),
        ({**AWS, "region": "evil.example/#"}, "not the name of a region"),
        ({**AWS, "aws-secret-access-key": ""}, "no key `aws-secret-access-key`"),
        ({**LOGIN, "oauth-client-id": ""}, "no key `oauth-client-id`"),
        ({**LOGIN, "oauth-token-url": "https://elsewhere.example/token"}, "does not name host elsewhere.example"),
        ({**LOGIN, "oauth-token-url": "https://auth.example@evil.example/"}, "without user"),
        ({**LOGIN, "oauth-token-url": "ftp://auth.example/"}, "must be a URL"),
    ],
)
def test_what_is_wrong_is_said_without_a_value(data: dict[str, str], says: str) -> None:
    with pytest.raises(HermesError, match=says) as caught:
        _read("auth.example", **data)
    assert caught.value.code is ErrorCode.NOT_CONFIGURED and "two words" not in caught.value.message


def test_type_and_hosts_are_needed() -> None:
    with pytest.raises(HermesError, match="must be of type"):
        read_secret("s", "Opaque", {"api-key": "k", "hosts": "h"})
    with pytest.raises(HermesError, match="no key `hosts`"):
        read_secret("s", "hermes.run/provider", {"api-key": "k"})
