"""Signatures of each style against the senders' own libraries and documented examples; prompts, events and ids."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime
from urllib.parse import urlencode

import pytest
import stripe
from hypothesis import given, strategies as st
from pydantic import ValidationError
from slack_sdk.signature import SignatureVerifier
from standardwebhooks.webhooks import Webhook
from starlette.datastructures import Headers

from hermes_contracts.access import WebhookRoute
from hermes_gateway.gateway.hooks import template
from hermes_gateway.gateway.hooks.payload import delivery_id, event_of, is_wanted, read_payload
from hermes_gateway.gateway.hooks.rate import RateLimits
from hermes_gateway.gateway.hooks.styles import problem_with
from hermes_gateway.gateway.web.errors import ApiError

NOW = 1_700_000_000
BODY = b'{"type": "invoice.paid", "id": "evt_1"}'
SECRET, OLD = "a-secret-of-sixteen", "an-older-secret-of-ours"
WHSEC, OLD_WHSEC = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def route(style: str, **changes: object) -> WebhookRoute:
    secrets = (WHSEC, OLD_WHSEC) if style == "standard" else (SECRET, OLD)
    values = {"secret": secrets[0], "older_secrets": secrets[1:], **changes}
    return WebhookRoute.model_validate({"name": "r", "namespace": "team", "profile": "helper", "style": style, **values})


def by_github(secret: str, at: int, body: bytes) -> dict[str, str]:
    return {"X-Hub-Signature-256": "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}


def by_stripe(secret: str, at: int, body: bytes) -> dict[str, str]:
    # The library's own signing, as its webhooks' senders do it.
    digest = stripe.WebhookSignature._compute_signature(f"{at}.{body.decode()}", secret)
    return {"Stripe-Signature": f"t={at},v0=ignored,v1={digest}"}


def by_slack(secret: str, at: int, body: bytes) -> dict[str, str]:
    signature = SignatureVerifier(secret).generate_signature(timestamp=str(at), body=body)
    assert signature is not None
    return {"X-Slack-Request-Timestamp": str(at), "X-Slack-Signature": signature}


def by_standard(secret: str, at: int, body: bytes) -> dict[str, str]:
    signature = Webhook(secret).sign("msg_1", datetime.fromtimestamp(at, UTC), body.decode())
    return {"webhook-id": "msg_1", "webhook-timestamp": str(at), "webhook-signature": signature}


SENDERS = {"github": by_github, "stripe": by_stripe, "slack": by_slack, "standard": by_standard}
TIMED = [style for style in SENDERS if style != "github"]


def check(style: str, headers: dict[str, str], body: bytes = BODY, now: float = NOW) -> str | None:
    return problem_with(route(style), Headers(headers), body, now)


@pytest.mark.parametrize("style", SENDERS)
def test_what_the_senders_library_signs_is_taken(style: str) -> None:
    for secret in (route(style).secret, *route(style).older_secrets):
        assert check(style, SENDERS[style](secret, NOW, BODY)) is None
    lower = {name.lower(): value for name, value in SENDERS[style](route(style).secret, NOW, BODY).items()}
    assert check(style, lower) is None


@pytest.mark.parametrize("style", SENDERS)
def test_what_somebody_else_signed_is_not(style: str) -> None:
    stranger = "whsec_" + "c3RyYW5nZXI" * 4 if style == "standard" else "a-stranger-of-sixteen"
    headers = SENDERS[style](stranger, NOW, BODY)
    assert check(style, headers) == "the signature does not match the body"
    good = SENDERS[style](route(style).secret, NOW, BODY)
    assert check(style, good, BODY + b" ") == "the signature does not match the body"
    for name in good:
        assert check(style, {other: value for other, value in good.items() if other != name}) is not None
        for bad in ("", "x", "t=1", "v1=", "sha256=", "ü", good[name][:-1]):
            assert check(style, {**good, name: bad}) is not None


@pytest.mark.parametrize("style", TIMED)
def test_an_old_request_is_refused_and_the_time_is_signed(style: str) -> None:
    good = SENDERS[style](route(style).secret, NOW, BODY)
    assert check(style, good, now=NOW + 300) is None
    for late in (NOW + 301, NOW - 301):
        assert "more than 300 s" in str(check(style, good, now=late))
    renewed = {name: value.replace(str(NOW), str(NOW + 900)) for name, value in good.items()}
    assert check(style, renewed, now=NOW + 900) == "the signature does not match the body"


def test_githubs_documented_example() -> None:
    # docs.github.com, "Validating webhook deliveries": secret, payload and the signature they give.
    found = route("github", secret="It's a Secret to Everybody")
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert problem_with(found, Headers({"X-Hub-Signature-256": signature}), b"Hello, World!", NOW) is None


def test_slacks_documented_example() -> None:
    # docs.slack.dev, "Verifying requests from Slack".
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar"
        b"&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com"
        b"%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d"
        b"10d2c447fce8b6703c"
    )
    headers = {
        "X-Slack-Request-Timestamp": "1531420618",
        "X-Slack-Signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    }
    found = route("slack", secret="8f742231b10e8888abcd99yyyzzz85a5")
    assert problem_with(found, Headers(headers), body, 1531420618) is None
    payload = read_payload(body, "application/x-www-form-urlencoded")
    assert event_of("slack", Headers(), payload) == "/webhook-collect"


def test_one_good_signature_among_several_is_enough() -> None:
    stripe_headers = by_stripe(SECRET, NOW, BODY)["Stripe-Signature"]
    assert check("stripe", {"Stripe-Signature": stripe_headers.replace("v1=", f"v1={'0' * 64},v1=")}) is None
    headers = by_standard(WHSEC, NOW, BODY)
    headers["webhook-signature"] = f"v1a,other v1,{'A' * 43}= {headers['webhook-signature']}"
    assert check("standard", headers) is None
    many = " ".join(f"v1,{n}" for n in range(10_000))
    assert check("standard", {**headers, "webhook-signature": many}) is not None


@given(st.dictionaries(st.sampled_from([name for style in SENDERS for name in SENDERS[style](
    WHSEC if style == "standard" else SECRET, NOW, BODY)]), st.text(max_size=60)), st.binary(max_size=60))  # fmt: skip
def test_no_header_breaks_a_check(headers: dict[str, str], body: bytes) -> None:
    raw = [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
    for style in SENDERS:
        assert problem_with(route(style), Headers(raw=raw), body, NOW) is not None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"style": "standard", "secret": "not base64 at all!"}, "whsec_"),
        ({"style": "standard", "secret": "whsec_c2hvcnQtc2hvcnQ="}, "16 to 128 bytes"),
        ({"deliver_only": True}, "at least one chat"),
        ({"deliver_only": True, "deliver": [{"channel": "home", "account": "slack:T1:U1"}]}, "name the chat"),
        (
            {"deliver_only": True, "reply_url": "https://a.example", "deliver": [{"channel": "slack", "account": "a"}]},
            "reply",
        ),
    ],
)
def test_routes_that_do_not_hang_together(changes: dict[str, object], why: str) -> None:
    base = {"name": "r", "namespace": "team", "profile": "helper", "secret": SECRET}
    with pytest.raises(ValidationError, match=why) as caught:
        WebhookRoute.model_validate({**base, **changes})
    assert "not base64 at all!" not in str(caught.value.errors(include_input=False))


PULL = {"action": "opened", "number": 7, "pull_request": {"title": "Add {x}", "labels": [{"name": "bug"}], "draft": None}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#{number}: {pull_request.title}", "#7: Add {x}"),
        ("{pull_request.labels.0.name}", "bug"),
        ("{pull_request.labels}", '[{"name": "bug"}]'),
        ("{pull_request.draft}", "null"),
        ("{pull_request.body} {nothing.at.all}", "(missing: pull_request.body) (missing: nothing.at.all)"),
        ("{pull_request.labels.9.name} {number.x}", "(missing: pull_request.labels.9.name) (missing: number.x)"),
        ("{} { number } {a b} {number!r} {number:>9} {{number}}", "{} { number } {a b} {number!r} {number:>9} {7}"),
        ("{__class__.__init__}", "(missing: __class__.__init__)"),
    ],
)
def test_prompts(text: str, expected: str) -> None:
    assert template.render(text, PULL, "raw") == expected


def test_all_of_a_payload_is_cut() -> None:
    shown = template.render("{__raw__}", {"a": "x" * 9000}, "")
    assert len(shown) < 4100
    assert "more characters" in shown
    assert template.render("{__raw__}", None, "plain") == "plain"
    assert len(template.render("{a}", {"a": ["x" * 9000]}, "")) < 2100


def test_events_and_their_filter() -> None:
    github = event_of("github", Headers({"X-GitHub-Event": "pull_request"}), read_payload(json.dumps(PULL).encode(), ""))
    assert github == "pull_request.opened"
    assert event_of("stripe", Headers(), read_payload(BODY, "application/json")) == "invoice.paid"
    slack = read_payload(b'{"type": "event_callback", "event": {"type": "app_mention"}}', "application/json")
    assert event_of("slack", Headers(), slack) == "app_mention"
    for wanted, taken in (
        ((), True),
        (("pull_request",), True),
        ((github,), True),
        (("pull",), False),
        (("issues",), False),
    ):
        assert is_wanted(github, wanted) is taken


def test_a_form_with_a_payload_is_the_payload() -> None:
    form = urlencode({"payload": json.dumps(PULL)}).encode()
    assert read_payload(form, "application/x-www-form-urlencoded; charset=utf-8").value == PULL
    plain = read_payload(b"command=%2Fdeploy&text=now", "application/x-www-form-urlencoded")
    assert plain.value == {"command": "/deploy", "text": "now"}
    with pytest.raises(ApiError, match="more than 200 fields"):
        read_payload(b"&".join(b"a=1" for _ in range(300)), "application/x-www-form-urlencoded")


def test_a_delivery_is_known_by_the_senders_id() -> None:
    payload = read_payload(BODY, "")
    assert delivery_id("github", Headers({"X-GitHub-Delivery": "guid"}), BODY, payload) == "guid"
    assert delivery_id("stripe", Headers(), BODY, payload) == "evt_1"
    assert delivery_id("standard", Headers({"webhook-id": "msg_1"}), BODY, payload) == "msg_1"
    event = read_payload(b'{"event_id": "Ev1"}', "")
    assert delivery_id("slack", Headers(), b"", event) == "Ev1"
    pressed = [delivery_id("slack", Headers({"X-Slack-Request-Timestamp": at}), b"a=1", payload) for at in ("1", "1", "2")]
    assert pressed[0] == pressed[1] != pressed[2]
    for style in ("github", "stripe", "standard"):
        with pytest.raises(ApiError, match="is required"):
            delivery_id(style, Headers(), b"{}", read_payload(b"{}", ""))  # type: ignore[arg-type]


def test_a_route_takes_so_many_requests_a_minute() -> None:
    limits = RateLimits()
    assert [limits.take("a", 2, 0.0) for _ in range(3)] == [0.0, 0.0, 30.0]
    assert limits.take("b", 2, 0.0) == 0.0
    assert limits.take("a", 2, 30.0) == 0.0
    assert limits.take("a", 2, 30.0) == pytest.approx(30.0)
