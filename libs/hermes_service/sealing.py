"""Sealed messages: anybody can write one for a public key, only the holder of the private half can read it.

libsodium's sealed box (X25519, XSalsa20-Poly1305) with a sender that nobody can name; who may send is the bus's business.
"""

from __future__ import annotations

import base64
import binascii

from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, PublicKey, SealedBox


class SealError(Exception):
    """A box that cannot be opened, or a key that is none. Says nothing of what is inside."""


class SealingKey:
    """A key that lives in memory and nowhere else."""

    def __init__(self) -> None:
        self._key = PrivateKey.generate()

    def __repr__(self) -> str:
        """Keep the key out of logs."""
        return "SealingKey(...)"

    @property
    def public(self) -> str:
        """The public half, base64."""
        return base64.b64encode(bytes(self._key.public_key)).decode()

    def open(self, box: str) -> bytes:
        """Return what was sealed for this key. Raises SealError."""
        try:
            return bytes(SealedBox(self._key).decrypt(base64.b64decode(box, validate=True)))
        except (CryptoError, binascii.Error, ValueError) as error:
            raise SealError("the box was not sealed for this key, or was changed") from error


def seal(public: str, data: bytes) -> str:
    """Return a box, base64, that only the holder of `public`'s private half opens. Raises SealError."""
    try:
        key = PublicKey(base64.b64decode(public, validate=True))
    except (CryptoError, binascii.Error, ValueError, TypeError) as error:
        raise SealError("not an X25519 public key") from error
    return base64.b64encode(bytes(SealedBox(key).encrypt(data))).decode()
