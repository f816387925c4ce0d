"""Encrypts what a login came to, so that the store can keep it for all replicas and cannot read it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from dataclasses import asdict, dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_NONCE = 12
_INFO = b"hermes provider login v1"


@dataclass(frozen=True)
class LoginState:
    """What a login came to. Times are seconds since the epoch."""

    refresh_token: str = field(repr=False)
    access_token: str = field(repr=False, default="")
    expires_at: float = 0.0
    claimed_until: float = 0.0
    """Until then one replica is renewing it, and the others wait."""


def login_id(namespace: str, secret: str, refresh_token: str) -> str:
    """Return the name under which the store keeps a login; a new refresh token in the Secret is a new login."""
    return hashlib.sha256("\n".join((namespace, secret, refresh_token)).encode()).hexdigest()


def seal(state: LoginState, login: str, secret_token: str) -> str:
    """Return a state as the store keeps it. `secret_token` is the refresh token that the Secret holds."""
    nonce = os.urandom(_NONCE)
    sealed = _cipher(login, secret_token).encrypt(nonce, json.dumps(asdict(state)).encode(), login.encode())
    return base64.b64encode(nonce + sealed).decode()


def unseal(sealed: str, login: str, secret_token: str) -> LoginState | None:
    """Return a state, or None for text that was not sealed with this login's token."""
    try:
        data = base64.b64decode(sealed, validate=True)
        opened = _cipher(login, secret_token).decrypt(data[:_NONCE], data[_NONCE:], login.encode())
        return LoginState(**json.loads(opened))
    except (binascii.Error, InvalidTag, ValueError, TypeError):
        return None


def _cipher(login: str, secret_token: str) -> AESGCM:
    key = HKDF(algorithm=SHA256(), length=32, salt=login.encode(), info=_INFO).derive(secret_token.encode())
    return AESGCM(key)
