"""What is written down about people and rights is judged without asking anybody."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hermes_contracts.access import ChatAccount, SlackAccount, TelegramAccount
from hermes_contracts.projection import ProfileProjection
from hermes_gateway.gateway.bindings import access_checks, platform_checks

ROOT = Path(__file__).resolve().parents[3]
SLACK = SlackAccount(
    name="acme", namespace="team", profile="helper", team="T0TEAM", app="A0APP", signing_secret="x" * 16, bot_token="x" * 20
)
TELEGRAM = TelegramAccount(name="bot", namespace="team", profile="helper", bot_token="4242:" + "x" * 35)
ACCOUNTS: dict[str, dict[str, ChatAccount]] = {"slack": {SLACK.account: SLACK}, "telegram": {TELEGRAM.account: TELEGRAM}}


def test_every_right_that_the_manifest_asks_for_is_checked() -> None:
    manifest = yaml.safe_load((ROOT / "manifests" / "slack-app.yaml").read_text())
    assert set(platform_checks.SCOPES) == set(manifest["oauth_config"]["scopes"]["bot"])


@pytest.mark.parametrize(
    ("approver", "known"),
    [
        ("slack:T0TEAM:U0BOSS", True),
        ("telegram::101", True),
        ("ada", True),
        ("slack:T0OTHER:U0BOSS", False),
        ("slack:U0BOSS", False),
        ("@boss", False),
        ("ben", False),
    ],
)
def test_an_approver_who_is_nobody_is_named(approver: str, known: bool) -> None:
    profile = ProfileProjection(
        namespace="team", namespace_uid="u", name="helper", model="m", provider="scripted", ready=True, message="",
        approvers=(approver,), created_at=0,
    )  # fmt: skip
    found = access_checks.approver_findings(profile, ACCOUNTS, {"ada"})
    assert found == [] if known else approver in found[0].message and "/whoami" in found[0].todo


def test_an_approver_of_another_namespaces_workspace_is_nobody() -> None:
    elsewhere = {"slack": {SLACK.account: SLACK.model_copy(update={"namespace": "elsewhere"})}}
    profile = ProfileProjection(
        namespace="team", namespace_uid="u", name="helper", model="m", provider="scripted", ready=True, message="",
        approvers=("slack:T0TEAM:U0BOSS",), created_at=0,
    )  # fmt: skip
    assert access_checks.approver_findings(profile, elsewhere, ()) != []
