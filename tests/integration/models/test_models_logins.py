"""Logins whose tokens expire and whose refresh tokens change, over several replicas."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import pytest

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.model_api import Finish, ModelError, Restart
from hermes_gateway.models.logins import Logins
from hermes_gateway.models.provider_secret import OAuthLogin, ProviderSecret
from hermes_gateway.models.sealing import LoginState, login_id, seal, unseal
from hermes_gateway.models.token_endpoint import Renewed, read_answer
from scripted_model.http_server import Connection, Request, listen
from tests.integration.models.harness import FakeStore, Models, ask, script, text

LOGIN = OAuthLogin("refresh-0", "https://auth.example/token", "client")
SECRET = ProviderSecret("key", frozenset({"auth.example", "api.example"}), login=LOGIN)


@dataclass
class Provider:
    """A token endpoint that takes each refresh token once, and calls a second use theft."""

    valid: str = "refresh-0"
    count: int = 0
    seconds: float = 3600
    forms: list[dict[str, str]] = field(default_factory=list)
    pause: float = 0.0
    problem: HermesError | None = None

    async def renew(self, login: OAuthLogin, refresh_token: str) -> Renewed:
        if self.problem is not None:
            raise self.problem
        assert refresh_token == self.valid, "a refresh token was used twice"
        self.count += 1
        self.valid = f"refresh-{self.count}"
        await asyncio.sleep(self.pause)
        return Renewed(f"access-{self.count}", self.valid, self.seconds)

    async def handle(self, request: Request, connection: Connection) -> None:
        self.forms.append({name: values[0] for name, values in parse_qs(request.body.decode()).items()})
        got = await self.renew(LOGIN, self.forms[-1]["refresh_token"])
        answer = {"access_token": got.access_token, "refresh_token": got.refresh_token, "expires_in": got.seconds}
        connection.send(200, {"content-type": "application/json"}, json.dumps(answer).encode())


class World:
    """A provider, a store, and a clock that `sleep` moves."""

    def __init__(self) -> None:
        self.provider, self.store, self.now = Provider(), FakeStore(), 1000.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0.001)

    def replica(self) -> Logins:
        return Logins(self.store, self.provider.renew, (), now=lambda: self.now, sleep=self.sleep)

    async def token(self, replica: Logins, rejected: str = "") -> str:
        return await replica.access_token("team", SECRET, LOGIN, rejected=rejected)


async def test_a_token_serves_until_shortly_before_its_end() -> None:
    world = World()
    replica = world.replica()
    assert await world.token(replica) == "access-1"
    asked = len(world.store.asked)
    world.now += 3000
    assert await world.token(replica) == "access-1" and len(world.store.asked) == asked
    world.now += 500
    assert await world.token(replica) == "access-2"


async def test_replicas_share_one_renewal() -> None:
    world = World()
    world.provider.pause = 0.02
    replicas = [world.replica() for _ in range(5)]
    tokens = await asyncio.gather(*(world.token(replica) for replica in replicas for _ in range(3)))
    assert set(tokens) == {"access-1"} and world.provider.count == 1
    world.now += 3600
    tokens = await asyncio.gather(*(world.token(replica) for replica in replicas))
    assert set(tokens) == {"access-2"} and world.provider.count == 2
    assert await world.token(world.replica()) == "access-2", "a new replica finds it in the store"


async def test_a_refused_token_is_renewed_and_not_twice_for_two_who_saw_it() -> None:
    world = World()
    one, two = world.replica(), world.replica()
    assert await world.token(one) == await world.token(two) == "access-1"
    assert await world.token(one, rejected="access-1") == "access-2"
    assert await world.token(two, rejected="access-1") == "access-2"


async def test_a_replica_that_dies_while_renewing_holds_nobody_up_for_long() -> None:
    world = World()
    name = login_id("team", "key", LOGIN.refresh_token)
    claimed = LoginState(LOGIN.refresh_token, claimed_until=world.now + 45)
    world.store.logins[name] = (1, seal(claimed, name, LOGIN.refresh_token))
    before = world.now
    assert await world.token(world.replica()) == "access-1"
    assert 45 <= world.now - before < 50


async def test_a_failed_renewal_lets_the_next_one_try_at_once() -> None:
    world = World()
    world.provider.problem = HermesError(ErrorCode.UNAVAILABLE, "away", retryable=True)
    with pytest.raises(HermesError, match="away"):
        await world.token(world.replica())
    world.provider.problem = None
    before = world.now
    assert await world.token(world.replica()) == "access-1" and world.now == before


async def test_a_store_that_is_away_renews_nothing() -> None:
    world = World()
    world.store.away = True
    with pytest.raises(HermesError) as caught:
        await world.token(world.replica())
    assert caught.value.retryable and world.provider.count == 0


async def test_the_token_endpoint_is_a_host_that_the_secret_names() -> None:
    world = World()
    secret = ProviderSecret("key", frozenset({"api.example"}), login=LOGIN)
    with pytest.raises(HermesError, match=r"does not name host auth\.example"):
        await world.replica().access_token("team", secret, LOGIN)
    plain = OAuthLogin("refresh-0", "http://auth.example/token", "client")
    with pytest.raises(HermesError, match="must be https"):
        await world.replica().access_token("team", SECRET, plain)


def test_the_store_cannot_read_what_it_keeps() -> None:
    name = login_id("team", "key", "refresh-0")
    state = LoginState("refresh-1", "access-1", 5.0)
    sealed = seal(state, name, "refresh-0")
    assert unseal(sealed, name, "refresh-0") == state
    assert "refresh" not in sealed and seal(state, name, "refresh-0") != sealed
    assert unseal(sealed, name, "another") is None
    assert unseal(sealed, login_id("team", "key", "x"), "refresh-0") is None
    assert unseal(sealed[:-4] + "AAA=", name, "refresh-0") is None and unseal("rubbish!", name, "refresh-0") is None
    assert "refresh-1" not in repr(state) and "access-1" not in repr(state)


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (400, b'{"error": "invalid_grant", "error_description": "refresh-0 was revoked"}', ErrorCode.AUTH),
        (401, b'{"error": "invalid_client"}', ErrorCode.AUTH),
        (400, b'{"error": "temporarily_unavailable"}', ErrorCode.UNAVAILABLE),
        (500, b"<html>", ErrorCode.UNAVAILABLE),
        (200, b"[]", ErrorCode.UNAVAILABLE),
        (200, b'{"access_token": ""}', ErrorCode.UNAVAILABLE),
        (200, b'{"access_token": "two\\nlines"}', ErrorCode.UNAVAILABLE),
        (200, b'{"access_token": "a", "refresh_token": 7}', ErrorCode.UNAVAILABLE),
    ],
)
def test_answers_of_a_token_endpoint(status: int, body: bytes, code: ErrorCode) -> None:
    with pytest.raises(HermesError) as caught:
        read_answer(status, body)
    assert caught.value.code is code and "refresh-0" not in caught.value.message


@pytest.mark.parametrize("seconds", [0, -5, "soon", True, None, 1e12, float("nan")])
def test_a_lifetime_that_makes_no_sense_is_a_short_one(seconds: Any) -> None:
    assert read_answer(200, json.dumps({"access_token": "a", "expires_in": seconds}).encode()).seconds == 300


@asynccontextmanager
async def logged_in(models: Models) -> AsyncIterator[Provider]:
    provider = Provider()
    async with listen(provider.handle, "127.0.0.1", 0) as port:
        data = {
            "oauth-refresh-token": "refresh-0", "oauth-token-url": f"http://127.0.0.1:{port}/token",
            "oauth-client-id": "client", "hosts": "127.0.0.1",
        }  # fmt: skip
        model = {"provider": "openai", "name": "m", "baseUrl": models.base + "/v1", "secretRef": {"name": "key"}}
        models.add_profile("login", model, key={"type": "hermes.run/provider", "data": data})
        yield provider


async def test_a_login_serves_calls_and_is_renewed_once_when_refused(models: Models) -> None:
    async with logged_in(models) as provider:
        assert isinstance((await models.events(ask("hello"), "login"))[-1], Finish)
        assert provider.forms == [{"grant_type": "refresh_token", "refresh_token": "refresh-0", "client_id": "client"}]
        events = await models.events(ask(script({"error": "auth", "times": 1}, {"say": "fine"}, id="x")), "login")
        assert text(events) == "fine" and [e.wait_seconds for e in events if isinstance(e, Restart)] == [0]
        assert models.shown_keys() == ["access-1", "access-1", "access-2"]
        error = await models.error({"error": "auth"}, profile="login")
        assert error.code is ErrorCode.AUTH
        assert models.shown_keys()[3:] == ["access-2", "access-3"], "renewed once a call"


async def test_a_login_that_has_ended_is_told_in_plain_words(models: Models) -> None:
    async def ended(request: Request, connection: Connection) -> None:
        connection.send(400, {"content-type": "application/json"}, b'{"error": "invalid_grant"}')

    async with logged_in(models), listen(ended, "127.0.0.1", 0) as port:
        found = next(p for p in models.profiles if p["name"] == "login")
        found["secrets"]["key"]["data"]["oauth-token-url"] = f"http://127.0.0.1:{port}/token"
        models.add_spec("login", found["spec"], found["secrets"])
        error = (await models.events(ask("hello"), "login"))[-1]
    assert isinstance(error, ModelError) and error.code is ErrorCode.AUTH and "log in again" in error.message
    assert not models.memory.requests
