"""Signatures, bodies and verdicts of webhooks, as pure functions."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from hermes_contracts.access import WebhookRoute
from hermes_gateway.gateway.channels.base import Arrival
from hermes_gateway.gateway.channels.signatures import problem_with, sign
from hermes_gateway.gateway.channels.webhook_reading import read_arrival
from hermes_gateway.gateway.delivery.backoff import judge_status, parse_retry_after, pause_seconds
from hermes_gateway.gateway.hooks.payload import read_payload
from hermes_gateway.gateway.web.errors import ApiError

NOW = 1_700_000_000
SECRET = "a-secret-of-sixteen"
KNOWN = "9b0b91fb3ad82c3401b0b0b8dc7952b2ecb36642163f223324fca497828342bc"


def check(timestamp: str | None, signature: str | None, body: bytes = b"body", now: float = NOW) -> str | None:
    return problem_with(SECRET, timestamp, signature, body, now=now, window_seconds=300)


def test_a_known_signature() -> None:
    # echo -n '1700000000.body' | openssl dgst -sha256 -hmac a-secret-of-sixteen
    assert sign(SECRET, NOW, b"body") == "v1=" + KNOWN


def test_what_is_signed_and_recent_is_well() -> None:
    signature = sign(SECRET, NOW, b"body")
    assert check(str(NOW), signature) is None
    assert check(str(NOW), signature, now=NOW + 300) is None
    assert check(str(NOW), signature, now=NOW - 300) is None


@pytest.mark.parametrize(
    ("timestamp", "signature", "body", "now"),
    [
        (None, sign(SECRET, NOW, b"body"), b"body", NOW),
        ("soon", sign(SECRET, NOW, b"body"), b"body", NOW),
        (f"0{NOW}", sign(SECRET, NOW, b"body"), b"body", NOW),
        ("٣", sign(SECRET, NOW, b"body"), b"body", NOW),
        (str(NOW), None, b"body", NOW),
        (str(NOW), "", b"body", NOW),
        (str(NOW), "v1=ü", b"body", NOW),
        (str(NOW), sign(SECRET, NOW, b"body")[3:], b"body", NOW),
        (str(NOW), sign(SECRET, NOW, b"body"), b"other", NOW),
        (str(NOW + 1), sign(SECRET, NOW, b"body"), b"body", NOW),
        (str(NOW), sign(SECRET, NOW, b"body"), b"body", NOW + 301),
        (str(NOW), sign(SECRET, NOW, b"body"), b"body", NOW - 301),
    ],
)
def test_what_is_not(timestamp: str | None, signature: str | None, body: bytes, now: float) -> None:
    assert check(timestamp, signature, body, now) is not None


def arrive(body: bytes, delivery: str | None = "d") -> Arrival:
    headers = {} if delivery is None else {"Hermes-Delivery-Id": delivery}
    route = WebhookRoute(name="r", namespace="team", profile="helper", secret=SECRET)
    return read_arrival(route, headers, body, read_payload(body, "application/json"))


def test_a_structured_body() -> None:
    arrival = arrive(b'{"text": "hi", "thread": "t", "sender": "s", "other": 1}')
    assert (arrival.text, arrival.key.chat, arrival.sender, arrival.update_id) == ("hi", "t", "s", "d")
    assert not arrival.quoted


@pytest.mark.parametrize("body", ["plain", '{"alert": "x"}', "[1, 2]", '{"text": 5}', "{broken"])
def test_any_other_body_is_the_text(body: str) -> None:
    arrival = arrive(body.encode())
    assert (arrival.text, arrival.key.chat) == (body, "r")


@given(st.binary(max_size=200))
def test_no_body_breaks_the_reader(body: bytes) -> None:
    try:
        arrive(body)
    except ApiError as error:
        assert error.status in (400, 413)


def test_a_deeply_nested_body_is_only_text() -> None:
    assert arrive(b"[" * 100_000).text.startswith("[[[")


def test_half_a_character_does_not_get_far() -> None:
    assert arrive(b'{"text": "a\\ud800b"}').text == "a?b"


@pytest.mark.parametrize("delivery", [None, "", "a b", "a\n", "ä", "x" * 201])
def test_a_delivery_needs_an_id_of_its_own(delivery: str | None) -> None:
    with pytest.raises(ApiError, match=r"Hermes-Delivery-Id|delivery's id"):
        arrive(b"x", delivery)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(200, "delivered"), (204, "delivered"), (301, "failed"), (400, "failed"), (404, "failed"), (410, "failed"),
     (408, "retry"), (425, "retry"), (429, "retry"), (500, "retry"), (503, "retry")],
)  # fmt: skip
def test_verdicts(status: int, outcome: str) -> None:
    assert judge_status(status, None, datetime.now(UTC)).outcome == outcome


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(None, None), ("7", 7.0), ("99999", 900.0), ("soon", None), ("-1", None),
     ("Tue, 14 Nov 2023 22:13:30 GMT", 10.0), ("Tue, 14 Nov 2023 22:13:00 GMT", 0.0)],
)  # fmt: skip
def test_retry_after(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, datetime.fromtimestamp(NOW, UTC)) == seconds


def test_pauses_grow_to_a_limit() -> None:
    assert [pause_seconds(n, 1.0) for n in (1, 2, 3, 9, 10_000)] == [2.0, 4.0, 8.0, 300.0, 300.0]
