"""Checks of what administrators have written: who may talk, which Profile answers, where answers go. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hermes_contracts.access import ChatAccount, WebhookRoute
from hermes_contracts.projection import ProfileProjection
from hermes_gateway.gateway.bindings.finding import Finding, fail, warn

Accounts = Mapping[str, Mapping[str, ChatAccount]]
"""By platform, then by the account's name in routing keys."""


def profile_findings(check: str, namespace: str, name: str, profile: ProfileProjection | None) -> list[Finding]:
    """Say that nobody can answer."""
    if profile is None:
        todo = f"make it, or name another one: kubectl get profiles -n {namespace}"
        return [fail(check, f"its Profile {name!r} is not in namespace {namespace}: messages get a 503", todo)]
    if not profile.ready:
        why = f"its Profile {name!r} is not ready, so messages get a 503: {profile.message}"
        return [fail(check, why, f"kubectl describe profile {name} -n {namespace}")]
    return []


def people_findings(check: str, account: ChatAccount) -> list[Finding]:
    """Say that nobody may talk, or that an admin may not, or that nobody can use a code where it is given."""
    found = []
    if not (account.allow_users or account.allow_chats or account.allow_everyone or account.pairing):
        found.append(fail(check, "nobody may talk to it", "name people in allow_users, or set pairing"))
    if not (account.allow_everyone or account.pairing):
        out = sorted({*account.admins, *account.group_admins} - set(account.allow_users))
        if out:
            what = f"{_listed(out)} may say every command and yet not talk: being an admin lets nobody in"
            found.append(warn(check, what, "add them to allow_users"))
    if account.pairing and not account.admins:
        what = "codes are given in direct chats, and /pair is for group_admins in rooms only: there are no admins"
        found.append(warn(check, what, "name who may say /pair in direct chats in admins"))
    return found


def route_findings(check: str, route: WebhookRoute, accounts: Accounts) -> list[Finding]:
    """Say that an answer can go nowhere."""
    found = []
    for target in route.deliver:
        known = accounts.get(target.channel)
        account = known.get(target.account) if known is not None else None
        if known is None:
            continue
        if account is None:
            names = _listed(sorted(known)) or "none"
            what = f"deliver: there is no {target.channel} account {target.account!r}"
            found.append(fail(check, what, f"name one by its account, not its name; there are {names}"))
        elif account.namespace != route.namespace:
            what = f"deliver: the {target.channel} account {target.account!r} is bound to another namespace"
            found.append(fail(check, what, "bind route and account to one namespace"))
    return found


def approver_findings(profile: ProfileProjection, accounts: Accounts, owners: Collection[str]) -> list[Finding]:
    """Say that an approver is nobody: neither somebody at a chat account of the namespace nor the owner of a key."""
    nobody = [one for one in profile.approvers if one not in owners and not _is_person(one, profile.namespace, accounts)]
    if not nobody:
        return []
    what = f"spec.approvals.approvers names {_listed(nobody)}, who is nobody here"
    todo = "write people as /whoami shows them (slack:T0TEAM:U0USER, telegram::101), or owners of API keys"
    return [warn(f"Profile {profile.name}: approvers", what, todo)]


def _is_person(owner: str, namespace: str, accounts: Accounts) -> bool:
    channel, _, rest = owner.partition(":")
    place, _, person = rest.partition(":")
    if channel not in accounts or not person or ":" in person:
        return False
    bound = [account for account in accounts[channel].values() if account.namespace == namespace]
    # Slack's people belong to a workspace, Telegram's to no one.
    return any(not place or account.account.partition(".")[0] == place for account in bound)


def _listed(names: Collection[str]) -> str:
    shown = list(names)[:5]
    return ", ".join(shown) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
