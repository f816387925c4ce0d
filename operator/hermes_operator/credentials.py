"""What the operator mints: bus users for epochs and for itself, tokens for the models service. Nothing here is stored."""

from __future__ import annotations

import time

import jwt

from hermes_contracts.bus_permissions import Role, agent_permissions, service_permissions, warm_permissions
from hermes_contracts.model_api import TOKEN_AUDIENCE, TOKEN_ISSUER, TOKEN_SECONDS
from hermes_service.bus import BusCredentials
from hermes_service.bus_keys import BusKeys, public_key_of

BUS_SECONDS = 6 * 3600
"""Life of an epoch's bus JWT. It is renewed long before; revocation is a courtesy, the epoch is the fence."""


class Minter:
    """Signs credentials."""

    def __init__(self, bus_keys: BusKeys, token_private_key: str) -> None:
        self._bus_keys = bus_keys
        self._token_private_key = token_private_key

    def __repr__(self) -> str:
        """Keep keys out of logs."""
        return "Minter(...)"

    def own_bus_user(self) -> BusCredentials:
        """Return the operator's own credential; it lives as long as the process."""
        return self._bus_keys.user("operator", service_permissions(Role.OPERATOR))

    def bus_user(self, sid: str, epoch: int) -> BusCredentials:
        """Return a new credential of one epoch's agent."""
        return self._bus_keys.user(f"{sid}-{epoch}", agent_permissions(sid, epoch), lifetime_seconds=BUS_SECONDS)

    def warm_bus_user(self, pod_uid: str) -> BusCredentials:
        """Return a new credential of a pod that waits for a session; it opens nothing of any session."""
        return self._bus_keys.user(f"warm-{pod_uid}", warm_permissions(pod_uid), lifetime_seconds=BUS_SECONDS)

    def renewed_bus_jwt(self, sid: str, epoch: int, seed: str) -> str:
        """Return a fresh JWT for the key that an agent has already."""
        return self.bus_jwt(sid, epoch, public_key_of(seed))

    def bus_jwt(self, sid: str, epoch: int, public_key: str) -> str:
        """Return a JWT of one epoch's agent for a key whose private half we do not know."""
        permissions = agent_permissions(sid, epoch)
        return self._bus_keys.user_jwt(public_key, f"{sid}-{epoch}", permissions, lifetime_seconds=BUS_SECONDS)

    def models_token(self, *, sid: str, epoch: int, namespace: str, profile: str) -> str:
        """Return the token that an agent shows the models service."""
        now = int(time.time())
        claims: dict[str, object] = {
            "iss": TOKEN_ISSUER,
            "aud": TOKEN_AUDIENCE,
            "sub": sid,
            "iat": now,
            "exp": now + TOKEN_SECONDS,
            "namespace": namespace,
            "profile": profile,
            "epoch": epoch,
        }
        return jwt.encode(claims, self._token_private_key, algorithm="EdDSA")
