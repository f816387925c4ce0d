"""Sealed messages: only who made the key reads them, and nothing about them is in an error or a repr."""

from __future__ import annotations

import base64

import pytest

from hermes_service.sealing import SealError, SealingKey, seal


def test_only_the_key_it_was_sealed_for_opens_a_box() -> None:
    key, other = SealingKey(), SealingKey()
    box = seal(key.public, b"who you are")
    assert key.open(box) == b"who you are"
    assert b"who you are" not in base64.b64decode(box)
    with pytest.raises(SealError):
        other.open(box)


@pytest.mark.parametrize("box", ["", "!", "aGVsbG8=", "A" * 100])
def test_rubbish_is_refused(box: str) -> None:
    with pytest.raises(SealError, match="not sealed for this key"):
        SealingKey().open(box)


def test_a_changed_box_is_refused() -> None:
    key = SealingKey()
    data = bytearray(base64.b64decode(seal(key.public, b"hello")))
    data[-1] ^= 1
    with pytest.raises(SealError):
        key.open(base64.b64encode(bytes(data)).decode())


@pytest.mark.parametrize("public", ["", "nonsense", base64.b64encode(b"short").decode()])
def test_what_is_no_key_is_refused(public: str) -> None:
    with pytest.raises(SealError, match="not an X25519 public key"):
        seal(public, b"x")


def test_a_key_does_not_show_itself() -> None:
    assert repr(SealingKey()) == "SealingKey(...)"
