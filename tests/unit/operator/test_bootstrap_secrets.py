"""The installation's Secrets: made once, completed where that is safe, never replaced."""

from __future__ import annotations

import hashlib
import json

import jwt
import pytest

from hermes_contracts.bus_permissions import Permissions, Role, service_permissions
from hermes_contracts.installation import (
    API_KEYS,
    BUS_GATEWAY,
    BUS_KEYS,
    BUS_SERVER,
    FIRST_API_KEY,
    INSTALLATION_SECRETS,
    POSTGRES,
    TOKEN_PRIVATE,
    TOKEN_PUBLIC,
    InstallationSecret,
)
from hermes_contracts.model_api import TOKEN_AUDIENCE, TOKEN_ISSUER
from hermes_operator.bootstrap_secrets import BootstrapError, Data, FirstKey, decode, encode, missing_data, read_bus_keys
from hermes_operator.credentials import Minter
from hermes_service.bus import BusCredentials
from hermes_service.bus_keys import allows

FIRST = FirstKey("admin", "team", "default")
SID = "s" + "a" * 25


@pytest.fixture(scope="module")
def complete() -> dict[InstallationSecret, Data]:
    return missing_data({}, "hermes", FIRST)


def test_the_first_start_makes_every_key_of_every_secret(complete: dict[InstallationSecret, Data]) -> None:
    assert set(complete) == set(INSTALLATION_SECRETS)
    for secret, data in complete.items():
        assert all(data[key] for key in secret.keys)
    record = json.loads(complete[API_KEYS]["keys.json"])["keys"][0]
    assert record["sha256"] == hashlib.sha256(complete[FIRST_API_KEY]["api-key"].encode()).hexdigest()
    assert record["namespace"] == "team"
    assert decode(encode(complete[POSTGRES])) == complete[POSTGRES]


def test_a_second_start_makes_nothing(complete: dict[InstallationSecret, Data]) -> None:
    assert missing_data(complete, "hermes", FIRST) == {}


@pytest.mark.parametrize("lost", [BUS_SERVER, BUS_GATEWAY, TOKEN_PUBLIC, API_KEYS])
def test_what_follows_from_the_rest_is_made_again(
    complete: dict[InstallationSecret, Data], lost: InstallationSecret
) -> None:
    left = {secret: data for secret, data in complete.items() if secret is not lost}
    made = missing_data(left, "hermes", FIRST)
    assert set(made) == {lost}
    if lost is not BUS_GATEWAY:  # a user's key is new each time
        assert made[lost].keys() == complete[lost].keys()
    if lost is TOKEN_PUBLIC:
        assert made[lost] == complete[lost]


def test_a_release_that_lets_a_service_do_more_signs_its_credential_anew(complete: dict[InstallationSecret, Data]) -> None:
    keys = read_bus_keys(complete[BUS_KEYS])
    former = keys.user("gateway", Permissions(publish=("hermes.wake",), subscribe=(), inbox="_INBOX.svc-gateway"))
    made = missing_data({**complete, BUS_GATEWAY: {"bus.creds": former.render()}}, "hermes", FIRST)
    assert set(made) == {BUS_GATEWAY}
    now = BusCredentials.parse(made[BUS_GATEWAY]["bus.creds"])
    assert now.seed == former.seed
    assert allows(now.jwt, service_permissions(Role.GATEWAY))
    assert not allows(former.jwt, service_permissions(Role.GATEWAY))


@pytest.mark.parametrize("lost", [BUS_KEYS, TOKEN_PRIVATE])
def test_what_others_were_made_from_is_not_made_anew(
    complete: dict[InstallationSecret, Data], lost: InstallationSecret
) -> None:
    left = {secret: data for secret, data in complete.items() if secret is not lost}
    with pytest.raises(BootstrapError, match=f"hermes-{lost.suffix} lacks .* restore"):
        missing_data(left, "hermes", FIRST)


def test_a_key_that_is_missing_from_a_secret_is_added_and_the_others_stay(complete: dict[InstallationSecret, Data]) -> None:
    half = {**complete, POSTGRES: {"owner-password": "kept"}}
    made = missing_data(half, "hermes", FIRST)
    assert made[POSTGRES]["owner-password"] == "kept"
    assert made[POSTGRES]["service-password"]


def test_a_first_key_that_a_person_took_away_stays_away(complete: dict[InstallationSecret, Data]) -> None:
    left = {secret: data for secret, data in complete.items() if secret is not FIRST_API_KEY}
    assert missing_data(left, "hermes", FIRST) == {}


def test_minted_tokens_are_believed_with_the_public_key(complete: dict[InstallationSecret, Data]) -> None:
    minter = Minter(read_bus_keys(complete[BUS_KEYS]), complete[TOKEN_PRIVATE]["private.pem"])
    token = minter.models_token(sid=SID, epoch=3, namespace="team", profile="demo")
    claims = jwt.decode(
        token, complete[TOKEN_PUBLIC]["public.pem"], algorithms=["EdDSA"], audience=TOKEN_AUDIENCE, issuer=TOKEN_ISSUER
    )
    assert (claims["sub"], claims["epoch"], claims["namespace"]) == (SID, 3, "team")
    assert "..." in repr(minter)
