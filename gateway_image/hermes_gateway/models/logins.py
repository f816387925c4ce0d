"""Access tokens of logins: renewed before they expire, by one replica at a time.

Providers may hand out a new refresh token with each renewal and take the old one as a theft: so a renewal is claimed in the
store first, by compare-and-set, and its result is there before anybody else renews.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from urllib.parse import urlsplit

import structlog

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import GET_LOGIN, PUT_LOGIN, LoginRequest, PutLoginRequest
from hermes_gateway.models.provider_secret import OAuthLogin, ProviderSecret
from hermes_gateway.models.resolution import check_host
from hermes_gateway.models.sealing import LoginState, login_id, seal, unseal
from hermes_gateway.models.store import Store
from hermes_gateway.models.token_endpoint import Renewed

log = structlog.get_logger()

EARLY_SECONDS = 120.0
"""Before it expires a token is renewed: longer than the clocks of two machines differ."""
CLAIM_SECONDS = 45.0
"""How long one replica may take; more than the token endpoint is given."""
_PAUSE_SECONDS = 0.25
_PATIENCE_SECONDS = 60.0
_LIMIT = 1000

Renew = Callable[[OAuthLogin, str], Awaitable[Renewed]]
"""Asks a login's token endpoint with a refresh token. Raises HermesError."""


class Logins:
    """Gives access tokens of logins."""

    def __init__(
        self,
        store: Store,
        renew: Renew,
        allowed_private_hosts: Collection[str],
        *,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._renew = renew
        self._allowed = allowed_private_hosts
        self._now = now
        self._sleep = sleep
        self._states: OrderedDict[str, LoginState] = OrderedDict()
        self._locks: OrderedDict[str, asyncio.Lock] = OrderedDict()

    async def access_token(self, namespace: str, secret: ProviderSecret, login: OAuthLogin, *, rejected: str = "") -> str:
        """Return a token that is not `rejected`. Raises HermesError NOT_CONFIGURED, AUTH or UNAVAILABLE."""
        name = login_id(namespace, secret.name, login.refresh_token)
        state = self._states.get(name)
        if state is not None and self._good(state, rejected):
            return state.access_token
        url = urlsplit(login.token_url)
        check_host("oauth-token-url", url.scheme, (url.hostname or "").lower(), secret, self._allowed)
        async with self._locks.setdefault(name, asyncio.Lock()):
            state = self._states.get(name)
            if state is None or not self._good(state, rejected):
                state = await self._shared(name, login, rejected)
                self._states[name] = state
                self._forget()
        return state.access_token

    def _good(self, state: LoginState, rejected: str) -> bool:
        return bool(state.access_token) and state.access_token != rejected and self._fresh(state)

    def _fresh(self, state: LoginState) -> bool:
        return state.expires_at - EARLY_SECONDS > self._now()

    async def _shared(self, name: str, login: OAuthLogin, rejected: str) -> LoginState:
        """Use what another replica got, wait for one that is at it, or renew."""
        deadline = self._now() + _PATIENCE_SECONDS
        while True:
            kept = await self._store.call(GET_LOGIN, LoginRequest(login=name))
            state = unseal(kept.sealed, name, login.refresh_token) if kept.revision else None
            state = state or LoginState(login.refresh_token)
            if self._good(state, rejected):
                return state
            if state.claimed_until <= self._now():
                claim = replace(state, claimed_until=self._now() + CLAIM_SECONDS)
                revision = await self._put(name, login, kept.revision, claim)
                if revision is not None:
                    return await self._renewed(name, login, revision, state)
            if self._now() > deadline:
                raise HermesError(ErrorCode.UNAVAILABLE, "The login is being renewed; try again.", retryable=True)
            await self._sleep(_PAUSE_SECONDS)

    async def _renewed(self, name: str, login: OAuthLogin, revision: int, state: LoginState) -> LoginState:
        log.info("models.login.renewing", login=name[:12])
        try:
            got = await self._renew(login, state.refresh_token)
        except BaseException as error:
            # Whether the provider has taken the token is not known when this was cut: the claim then runs out by itself.
            if isinstance(error, HermesError):
                await self._put(name, login, revision, replace(state, claimed_until=0.0))
            raise
        new = LoginState(got.refresh_token or state.refresh_token, got.access_token, self._now() + got.seconds)
        if await self._put(name, login, revision, new) is None:
            # Somebody thought that we were dead. Theirs is in the store; ours works until it expires.
            log.warning("models.login.lost_claim", login=name[:12])
        return new

    async def _put(self, name: str, login: OAuthLogin, expected: int, state: LoginState) -> int | None:
        """Return the new revision, None when another replica was first."""
        sealed = seal(state, name, login.refresh_token)
        try:
            reply = await self._store.call(PUT_LOGIN, PutLoginRequest(login=name, expected=expected, sealed=sealed))
        except HermesError as error:
            if error.code is ErrorCode.CONFLICT:
                return None
            raise
        return reply.revision

    def _forget(self) -> None:
        while len(self._states) > _LIMIT:
            name, _ = self._states.popitem(last=False)
            lock = self._locks.get(name)
            if lock is not None and not lock.locked():
                del self._locks[name]
