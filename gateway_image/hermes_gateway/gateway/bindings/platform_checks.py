"""Checks of what Slack and Telegram say of an account. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts.access import SlackAccount, TelegramAccount
from hermes_gateway.gateway.bindings.finding import Finding, fail, ok, warn

RECENT_SECONDS = 3600.0
_TOKEN_ERRORS = frozenset({"invalid_auth", "not_authed", "token_expired", "token_revoked", "account_inactive"})

SCOPES = {
    "chat:write": "it cannot answer",
    "im:history": "direct messages do not come, and answers can come twice after a crash",
    "app_mentions:read": "mentions do not come",
    "commands": "slash commands do not come",
    "files:read": "pictures and files that people send are not seen",
    "files:write": "files that the agent sends do not come",
    "channels:history": "answers in channels can come twice after a crash",
    "groups:history": "answers in private channels can come twice after a crash",
    "users:read": "guests cannot be told from members, so nobody gets in by allow_everyone and allow_chats",
}
"""Rights of the app that manifests/slack-app.yaml asks for, and what is without them."""


@dataclass(frozen=True)
class SlackFacts:
    """What Slack says. `error` and `socket_error` are its own words, empty: none; `scopes` None: it did not say."""

    error: str = ""
    away: str = ""
    """Why Slack could not be asked."""
    team: str = ""
    app: str = ""
    scopes: frozenset[str] | None = None
    socket_error: str = ""


@dataclass(frozen=True)
class TelegramFacts:
    """What Telegram says. `error` is one of ours."""

    error: str = ""
    bad_token: bool = False
    posts_to: str = ""
    """Where it posts updates; empty: it keeps them until they are fetched."""
    post_error: str = ""
    post_error_age: float = 0.0
    waiting: int = 0


def slack_findings(check: str, account: SlackAccount, facts: SlackFacts) -> list[Finding]:
    """Say whether token, workspace, app and rights are those of the account."""
    if facts.away:
        todo = "let the gateway reach api_url: a proxy, or networkPolicy.gateway.extraEgress of the chart"
        return [fail(check, f"Slack cannot be asked: {facts.away}", todo)]
    if facts.error:
        todo = (
            "put the bot token of the app, xoxb-..., into slack.json; install the app again if it was removed"
            if facts.error in _TOKEN_ERRORS
            else "look up this answer of auth.test in Slack's documentation"
        )
        return [fail(check, f"Slack refuses bot_token: {facts.error}", todo)]
    found = [*_elsewhere(check, account, facts), *_rights(check, account, facts)]
    if facts.socket_error:
        todo = "make an app-level token with connections:write, and set socket_mode_enabled in the app's manifest"
        found.append(fail(check, f"Slack refuses app_token: {facts.socket_error}", todo))
    how = "Socket Mode" if account.app_token else f"Slack posts to /slack/{account.name}/events"
    return found or [ok(check, f"Slack knows the app; {how}")]


def _elsewhere(check: str, account: SlackAccount, facts: SlackFacts) -> list[Finding]:
    found = []
    if facts.team and facts.team != account.team:
        what = f"bot_token is of workspace {facts.team}, the account of {account.team}: what comes is left alone"
        found.append(fail(check, what, f"set team to {facts.team}, or use the other workspace's token"))
    if facts.app and facts.app != account.app:
        what = f"bot_token is of app {facts.app}, the account of {account.app}: what comes is left alone"
        found.append(fail(check, what, f"set app to {facts.app}, or use the other app's token"))
    return found


def _rights(check: str, account: SlackAccount, facts: SlackFacts) -> list[Finding]:
    if facts.scopes is None:
        return []
    wanted = set(SCOPES) if account.allow_everyone or account.allow_chats else set(SCOPES) - {"users:read"}
    found = []
    for scope in sorted(wanted - facts.scopes):
        what, todo = f"the app lacks the right {scope}: {SCOPES[scope]}", "add it in the app's manifest and install again"
        found.append((fail if scope == "chat:write" else warn)(check, what, todo))
    return found


def telegram_findings(check: str, account: TelegramAccount, facts: TelegramFacts) -> list[Finding]:
    """Say whether the token is known and updates come the way that the account says."""
    if facts.bad_token:
        return [fail(check, "Telegram does not know bot_token", "ask @BotFather for the bot's token")]
    if facts.error:
        todo = "let the gateway reach api_url: a proxy, or networkPolicy.gateway.extraEgress of the chart"
        return [fail(check, f"Telegram cannot be asked: {facts.error}", todo)]
    found = []
    if facts.posts_to != (account.webhook_url or ""):
        theirs = f"posts updates to {_host(facts.posts_to)}" if facts.posts_to else "posts updates nowhere"
        what = f"Telegram {theirs}, which is not what the account says: another process uses the same bot"
        found.append(fail(check, what, "stop the other process, or make a bot of its own for one of the two"))
    elif facts.post_error and facts.post_error_age < RECENT_SECONDS:
        todo = (
            "secret_token differs from what Telegram was told: one bot has two gateways, or a proxy drops the header"
            if "401" in facts.post_error
            else "make webhook_url reachable for Telegram: ingress.enabled or httpRoute.enabled, TLS, and the path"
        )
        found.append(fail(check, f"Telegram could not post an update: {facts.post_error[:200]}", todo))
    how = "Telegram posts updates here" if account.webhook_url else "updates are fetched"
    return found or [ok(check, f"Telegram knows the bot; {how}, {facts.waiting} wait")]


def _host(url: str) -> str:
    return url.split("/")[2][:100] if url.count("/") >= 2 else "another address"


def traffic_findings(strangers: int, refused: int, channel: str) -> list[Finding]:
    """Say who was turned away since this replica began."""
    found = []
    if strangers:
        what = f"{strangers} messages of people who may not talk, on this replica"
        todo = "see people.denied in the gateway's log for their ids, and allow_users for letting them in"
        found.append(warn(f"{channel}: strangers", what, todo))
    if refused:
        what = f"{refused} requests with a wrong signature, on this replica"
        secret = {"slack": "signing_secret is another app's", "telegram": "secret_token differs"}
        todo = f"if they were not strangers': {secret.get(channel, 'the secret of the route and the sender differ')}"
        found.append(warn(f"{channel}: signatures", what, todo))
    return found
