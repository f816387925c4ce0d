"""The gateway's signature on an inbound message: an agent believes no message without it."""

from __future__ import annotations

import base64
import hashlib

import nkeys


def _digest(subject: str, message_id: str, route: str, body: bytes) -> bytes:
    parts = (subject.encode(), message_id.encode(), route.encode(), body)
    return hashlib.sha256(b"".join(len(p).to_bytes(8, "big") + p for p in parts)).digest()


def new_signing_seed() -> str:
    """Make the seed of a signing key."""
    import secrets

    return str(nkeys.encode_seed(secrets.token_bytes(32), nkeys.PREFIX_BYTE_USER).decode())


def public_key(seed: str) -> str:
    """Return the public key of a seed, as nkey text."""
    return str(nkeys.from_seed(seed.encode()).public_key.decode())


class Signer:
    """Signs inbound messages."""

    def __init__(self, seed: str) -> None:
        self._key = nkeys.from_seed(seed.encode())

    def sign(self, subject: str, message_id: str, route: str, body: bytes) -> str:
        """Return the value of the signature header."""
        return base64.b64encode(self._key.sign(_digest(subject, message_id, route, body))).decode()


class Verifier:
    """Checks inbound messages against a public key."""

    def __init__(self, public: str) -> None:
        from nacl.signing import VerifyKey

        raw = base64.b32decode(public + "=" * (-len(public) % 8))
        self._key = VerifyKey(raw[1:33])

    def verify(self, signature: str, subject: str, message_id: str, route: str, body: bytes) -> bool:
        """Tell whether the signature is the gateway's. Never raises."""
        from nacl.exceptions import BadSignatureError

        try:
            self._key.verify(_digest(subject, message_id, route, body), base64.b64decode(signature, validate=True))
        except (BadSignatureError, ValueError, TypeError):
            return False
        return True
