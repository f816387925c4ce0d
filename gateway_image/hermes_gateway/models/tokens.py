"""Reads the token an agent shows: who asks, for which Profile."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from pydantic import ValidationError

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.model_api import TOKEN_AUDIENCE, TOKEN_ISSUER, SessionClaims

_PEM = re.compile(rb"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----", re.DOTALL)
_LOOK_SECONDS = 5.0
_LEEWAY_SECONDS = 5
_MAX_TOKEN = 4096
_MAX_VERIFIED = 2000


def load_keys(pem: bytes) -> tuple[Ed25519PublicKey, ...]:
    """Read ed25519 public keys. Raises ValueError when there is none or one of another kind."""
    keys = tuple(load_pem_public_key(block) for block in _PEM.findall(pem))
    found = tuple(key for key in keys if isinstance(key, Ed25519PublicKey))
    if not found or len(found) != len(keys):
        raise ValueError("token public key file: expected one or more ed25519 public keys in PEM")
    return found


class TokenVerifier:
    """Checks tokens against the keys in a file, which is read again when it changes."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._changed = -1
        self._looked = float("-inf")
        self._keys: tuple[Ed25519PublicKey, ...] = ()
        self._verified: OrderedDict[str, SessionClaims] = OrderedDict()
        self._refresh()

    def verify(self, authorization: str | None) -> SessionClaims:
        """Return the claims of an `Authorization` header. Raises HermesError UNAUTHENTICATED, saying what is wrong."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise _refused("no token: send `Authorization: Bearer <token>`")
        if len(token) > _MAX_TOKEN:
            raise _refused("the token is too long")
        self._refresh()
        known = self._verified.get(token)
        if known is not None and time.time() <= known.exp:
            return known
        claims = self._check(token.strip())
        self._verified[token] = claims
        while len(self._verified) > _MAX_VERIFIED:
            self._verified.popitem(last=False)
        return claims

    def _check(self, token: str) -> SessionClaims:
        problem = _refused("the token's signature is not ours")
        for key in self._keys:
            try:
                return self._decode(token, key)
            except jwt.InvalidSignatureError:
                continue
            except jwt.ExpiredSignatureError:
                problem = _refused("the token has expired: use a fresh one")
            except jwt.InvalidAudienceError:
                problem = _refused(f"the token's audience is not {TOKEN_AUDIENCE}")
            except jwt.InvalidIssuerError:
                problem = _refused(f"the token's issuer is not {TOKEN_ISSUER}")
            except (jwt.InvalidTokenError, ValidationError):
                problem = _refused("the token is malformed")
            break
        raise problem

    def _decode(self, token: str, key: Ed25519PublicKey) -> SessionClaims:
        payload = jwt.decode(
            token,
            key,
            algorithms=["EdDSA"],
            audience=TOKEN_AUDIENCE,
            issuer=TOKEN_ISSUER,
            leeway=_LEEWAY_SECONDS,
            options={"require": ["exp", "iss", "aud", "sub"]},
        )
        return SessionClaims.model_validate(payload)

    def _refresh(self) -> None:
        now = self._clock()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        changed = self._path.stat().st_mtime_ns
        if changed != self._changed:
            self._keys = load_keys(self._path.read_bytes())
            self._changed = changed
            self._verified.clear()


def _refused(message: str) -> HermesError:
    return HermesError(ErrorCode.UNAUTHENTICATED, message)
