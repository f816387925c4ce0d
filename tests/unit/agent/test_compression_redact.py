"""Secrets do not reach the summariser: what must go, and what must stay."""

from __future__ import annotations

import time

import pytest

from hermes_agent.compression.redact import REMOVED, redact
from hermes_agent.compression.secret_patterns import PREFIXES

A40 = "aB3dE6gH9j" * 4
HEX = "0123456789abcdef" * 4

TOKENS = {
    "openai": "sk-proj-" + A40, "anthropic": "sk-ant-api03-" + A40, "github": "ghp_" + A40[:36],
    "github_fine": "github_pat_" + A40, "gitlab": "glpat-" + A40[:20], "aws_id": "AKIA" + "ABCDEFGH12345678",
    "google": "AIza" + A40[:35], "google_oauth": "ya29." + A40, "google_client": "GOCSPX-" + A40[:28],
    "slack": "xoxb-" + "1234567890-abcdef", "slack_app": "xapp-1-" + A40, "slack_hook": "hooks.slack.com/services/" + A40,
    "telegram": "123456789:" + A40[:35], "discord": "M" + A40[:24] + "." + A40[:6] + "." + A40[:30],
    "stripe": "sk_live_" + A40[:24], "stripe_hook": "whsec_" + A40[:32], "twilio": "SK" + HEX[:32],
    "sendgrid": "SG." + A40[:22] + "." + A40, "mailgun": "key-" + HEX[:32], "npm": "npm_" + A40[:36],
    "pypi": "pypi-" + A40 * 2, "huggingface": "hf_" + A40[:34], "replicate": "r8_" + A40[:37], "groq": "gsk_" + A40,
    "xai": "xai-" + A40, "perplexity": "pplx-" + A40, "tavily": "tvly-" + A40[:30], "firecrawl": "fc-" + HEX[:32],
    "digitalocean": "dop_v1_" + HEX, "vault": "hvs." + A40[:24], "doppler": "dp.pt." + A40, "linear": "lin_api_" + A40,
    "notion": "ntn_" + A40 + "abc", "atlassian": "ATATT3" + A40 + "=", "shopify": "shpat_" + HEX[:32],
    "databricks": "dapi" + HEX[:32], "sentry": "sntrys_" + A40, "grafana": "glsa_" + A40,
    "age": "AGE-SECRET-KEY-1" + "QPZRY9X8GF" * 5, "nkey": "SU" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567" * 2,
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcDEF123456-_x",
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name, _ in PREFIXES])
def test_each_vendors_token_goes_wherever_it_stands(name: str) -> None:
    token = TOKENS[name][:58] if name == "nkey" else TOKENS[name]
    for text in (f"use {token} now", f'{{"x": "{token}"}}', f"curl -u {token}: https://x.example", f"a\n{token}\nb"):
        assert token not in redact(text) and REMOVED in redact(text)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("DB_PASSWORD=hunter2hunter2", "hunter2hunter2"),
        ("export API_KEY='abc def ghi'", "abc def ghi"),
        ('{"client_secret": "s3cr3t-value"}', "s3cr3t-value"),
        ("password: correct-horse", "correct-horse"),
        ("my-app.access_key => 9a8b7c6d5e", "9a8b7c6d5e"),
        ("mysql --password=hunter2hunter", "hunter2hunter"),
        ("Authorization: Bearer abcdefghijklmnop", "abcdefghijklmnop"),
        ("-H 'authorization: Basic dXNlcjpwYXNz'", "dXNlcjpwYXNz"),
        ("postgres://bob:pa55word@db:5432/x", "pa55word"),
        ("https://x.example/cb?code=abcdef123456&state=1", "abcdef123456"),
        ("https://x.example/?access_token=abcdef123456", "abcdef123456"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\nxyz\n-----END RSA PRIVATE KEY-----", "MIIEabc"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEcut", "MIIEcut"),
    ],
)
def test_values_of_secret_names_go(text: str, secret: str) -> None:
    assert secret not in redact(text) and REMOVED in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "The password field is required.",
        "token = None",
        "password: string",
        "API_KEY=$SECRET_FROM_ENV",
        "api_key = os.environ['X']",
        "tokens: 128000 of them were used",
        "sk-learn is a library; sk-ip it",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "the keyboard: qwertz-layout",
        "https://example.org/path?page=2&sort=name",
        "src/very/long/path/to/some/module_with_a_long_name.py",
        "Passwort vergessen? Поменяйте пароль.",
        "max_tokens: 4096",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text


def test_what_replaces_a_secret_is_no_value_and_stays_as_it_is() -> None:
    once = redact("DB_PASSWORD=hunter2hunter2")
    assert redact(once) == once and "hunter2"[:4] not in once


def test_hostile_text_takes_no_time() -> None:
    for text in (
        "a_" * 100_000,
        "secret" * 30_000,
        "x://" * 50_000,
        "key=" * 50_000,
        "eyJ" * 60_000,
        "-----BEGIN " * 20_000,
    ):
        started = time.process_time()
        redact(text)
        assert time.process_time() - started < 5, text[:12]
