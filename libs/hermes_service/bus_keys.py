"""Keys and JWTs of the bus: an operator, one account for everything of ours, a system account, users.

The formats are NATS' decentralised JWT authentication, version 2 (claims signed with ed25519 nkeys).
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from dataclasses import dataclass

import nkeys

from hermes_contracts.bus_permissions import Permissions
from hermes_service.bus import BusCredentials

_UNLIMITED = {
    "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True, "conn": -1, "leaf": -1,
}  # fmt: skip


def _new_seed(prefix: int) -> str:
    return str(nkeys.encode_seed(secrets.token_bytes(32), prefix).decode())


def new_user_seed() -> str:
    """Make the seed of a user's key: whoever holds it may ask for a JWT by its public key."""
    return _new_seed(nkeys.PREFIX_BYTE_USER)


def public_key_of(seed: str) -> str:
    """Return the public nkey of a seed."""
    return str(nkeys.from_seed(seed.encode()).public_key.decode())


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _allowed(permissions: Permissions) -> dict[str, object]:
    """Return the claims that name subjects; an empty list would allow all, so a role without gets one that nobody uses."""
    return {
        "pub": {"allow": list(permissions.publish) or ["hermes.nothing"]},
        "sub": {"allow": list(permissions.subscribe) or ["hermes.nothing"]},
    }


def allows(jwt: str, permissions: Permissions) -> bool:
    """Tell whether a user's JWT allows exactly this. Not a check of its signature: for what we made ourselves."""
    try:
        body = jwt.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))["nats"]
        return {part: claims[part] for part in ("pub", "sub")} == _allowed(permissions)
    except (ValueError, LookupError, TypeError):
        return False


def _jwt(issuer_seed: str, subject: str, name: str, claims: dict[str, object], expires_at: int | None = None) -> str:
    issuer = nkeys.from_seed(issuer_seed.encode())
    body: dict[str, object] = {
        "iat": int(time.time()), "iss": issuer.public_key.decode(), "sub": subject, "name": name, "nats": claims,
    }  # fmt: skip
    if expires_at is not None:
        body["exp"] = expires_at
    body["jti"] = base64.b32encode(hashlib.sha256(json.dumps(body).encode()).digest()).decode().rstrip("=")
    head = _encode(json.dumps({"typ": "JWT", "alg": "ed25519-nkey"}).encode()) + "." + _encode(json.dumps(body).encode())
    return f"{head}.{_encode(issuer.sign(head.encode()))}"


@dataclass(frozen=True)
class BusKeys:
    """Seeds from which everything else follows. Kept in one Secret; made once, never overwritten."""

    operator_seed: str
    account_seed: str
    system_seed: str

    def __repr__(self) -> str:
        """Keep seeds out of logs."""
        return "BusKeys(...)"

    @classmethod
    def generate(cls) -> BusKeys:
        """Make new keys."""
        account = nkeys.PREFIX_BYTE_ACCOUNT
        return cls(_new_seed(nkeys.PREFIX_BYTE_OPERATOR), _new_seed(account), _new_seed(account))

    def server_config(self) -> str:
        """Return the authentication part of nats-server's configuration. Holds public keys and JWTs only.

        A client sends its JWT, and with it every subject that it may use, in one line; 4 KB of it is the server's default.
        """
        account, system = public_key_of(self.account_seed), public_key_of(self.system_seed)
        storage = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
        no_storage = dict.fromkeys(storage, 0)
        operator_jwt = _jwt(
            self.operator_seed, public_key_of(self.operator_seed), "hermes",
            {"type": "operator", "version": 2, "system_account": system},
        )  # fmt: skip
        account_jwt = _jwt(
            self.operator_seed, account, "HERMES", {"type": "account", "version": 2, "limits": {**_UNLIMITED, **storage}}
        )
        system_jwt = _jwt(
            self.operator_seed, system, "SYS", {"type": "account", "version": 2, "limits": {**_UNLIMITED, **no_storage}}
        )
        return (
            f"max_control_line: 64KB\noperator: {operator_jwt}\nsystem_account: {system}\nresolver: MEMORY\n"
            f"resolver_preload: {{ {account}: {account_jwt}, {system}: {system_jwt} }}\n"
        )

    def user(self, name: str, permissions: Permissions, *, lifetime_seconds: int | None = None) -> BusCredentials:
        """Make a user's credential."""
        seed = new_user_seed()
        return BusCredentials(self.user_jwt(public_key_of(seed), name, permissions, lifetime_seconds=lifetime_seconds), seed)

    def user_jwt(self, public: str, name: str, permissions: Permissions, *, lifetime_seconds: int | None = None) -> str:
        """Sign a JWT for a user's public key: a renewal keeps the key and needs no secret to travel."""
        claims: dict[str, object] = {
            "type": "user",
            "version": 2,
            "subs": -1,
            "data": -1,
            "payload": -1,
            **_allowed(permissions),
        }
        expires = None if lifetime_seconds is None else int(time.time()) + lifetime_seconds
        return _jwt(self.account_seed, public, name, claims, expires)
