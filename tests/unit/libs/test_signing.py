"""An agent believes no message that the gateway did not sign, whole."""

from __future__ import annotations

import pytest

from hermes_service import signing

SEED = signing.new_signing_seed()
SUBJECT, MESSAGE_ID, ROUTE, BODY = "hermes.in.1.s", "id", "{}", b"hello"


def _verifier(seed: str = SEED) -> signing.Verifier:
    return signing.Verifier(signing.public_key(seed))


def test_a_signed_message_is_believed() -> None:
    signature = signing.Signer(SEED).sign(SUBJECT, MESSAGE_ID, ROUTE, BODY)
    assert _verifier().verify(signature, SUBJECT, MESSAGE_ID, ROUTE, BODY)


@pytest.mark.parametrize("changed", range(4))
def test_changing_any_part_breaks_the_signature(changed: int) -> None:
    signature = signing.Signer(SEED).sign(SUBJECT, MESSAGE_ID, ROUTE, BODY)
    parts: list[str | bytes] = [SUBJECT, MESSAGE_ID, ROUTE, BODY]
    parts[changed] = parts[changed] + (b"x" if isinstance(parts[changed], bytes) else "x")  # type: ignore[operator]
    assert not _verifier().verify(signature, *parts)  # type: ignore[arg-type]


def test_moving_bytes_between_parts_breaks_the_signature() -> None:
    signature = signing.Signer(SEED).sign("ab", "c", ROUTE, BODY)
    assert not _verifier().verify(signature, "a", "bc", ROUTE, BODY)


@pytest.mark.parametrize("signature", ["", "%%%", "AAAA", "é", "A" * 88])
def test_rubbish_is_no_signature_and_no_crash(signature: str) -> None:
    assert not _verifier().verify(signature, SUBJECT, MESSAGE_ID, ROUTE, BODY)


def test_another_key_is_not_the_gateway() -> None:
    signature = signing.Signer(signing.new_signing_seed()).sign(SUBJECT, MESSAGE_ID, ROUTE, BODY)
    assert not _verifier().verify(signature, SUBJECT, MESSAGE_ID, ROUTE, BODY)
