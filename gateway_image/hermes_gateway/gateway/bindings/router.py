"""`GET /health/bindings`: what is wrong with the chat accounts and webhook routes of a key's namespace and Profiles."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from fastapi import APIRouter
from prometheus_client import REGISTRY
from pydantic import BaseModel

from hermes_contracts.access import ApiKeyRecord, ChatAccount, SlackAccount, TelegramAccount, WebhookRoute
from hermes_gateway.gateway.bindings import access_checks, platform_checks
from hermes_gateway.gateway.bindings.asking import ask_slack, ask_telegram
from hermes_gateway.gateway.bindings.finding import Finding, ok, warn
from hermes_gateway.gateway.channels.telegram.channel import TelegramChannel
from hermes_gateway.gateway.profiles import ProfileCache
from hermes_gateway.gateway.web.callers import AnyCaller, problems

KEPT_SECONDS, TROUBLE_KEPT_SECONDS = 30.0, 3.0
"""Platforms are asked about an account at most so often, whoever calls; sooner again when somebody may be mending it."""
_MOST_KEPT = 1000


class FindingPage(BaseModel):
    """Accounts by platform and name, then routes, then Profiles."""

    object: Literal["list"] = "list"
    data: list[Finding]


@dataclass
class Bindings:
    """Looks at what administrators have bound to a namespace."""

    profiles: ProfileCache
    telegram: TelegramChannel
    accounts: Mapping[str, Callable[[], Mapping[str, ChatAccount]]]
    routes: Callable[[], Mapping[str, WebhookRoute]]
    owners: Callable[[str], Collection[str]]
    """Owners of API keys of a namespace."""
    _kept: dict[ChatAccount, tuple[float, list[Finding]]] = field(default_factory=dict)
    """What platforms said, and until when it is not asked again."""

    async def look(self, caller: ApiKeyRecord) -> list[Finding]:
        """Return what a key may know: of its own namespace and Profiles."""
        found: list[Finding] = []
        seen: list[str] = []
        for channel, of_channel in sorted(self.accounts.items()):
            mine = [account for _, account in sorted(of_channel().items()) if _belongs(caller, account)]
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(self._account(channel, account)) for account in mine]
            found += [one for task in asked for one in task.result()]
            seen += [channel] if mine else []
        routes = [route for route in self.routes().values() if _belongs(caller, route)]
        found += [one for route in routes for one in self._route(route)]
        found += [one for name in caller.profiles for one in self._profile(caller.namespace, name)]
        return [*found, *(one for channel in (*seen, *(["webhook"] if routes else [])) for one in _traffic(channel))]

    async def _account(self, channel: str, account: ChatAccount) -> list[Finding]:
        check = f"{channel} account {account.name}"
        profile = self.profiles.get(account.namespace, account.profile)
        return [
            *access_checks.profile_findings(check, account.namespace, account.profile, profile),
            *access_checks.people_findings(check, account),
            *await self._asked(check, account),
        ]

    async def _asked(self, check: str, account: ChatAccount) -> list[Finding]:
        now = time.monotonic()
        known = self._kept.get(account)
        if known is not None and now < known[0]:
            return known[1]
        found: list[Finding] = []
        if isinstance(account, SlackAccount):
            found = platform_checks.slack_findings(check, account, await ask_slack(account))
        elif isinstance(account, TelegramAccount):
            found = platform_checks.telegram_findings(check, account, await ask_telegram(self.telegram.bot(account)))
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        well = all(one.state == "ok" for one in found)
        self._kept[account] = time.monotonic() + (KEPT_SECONDS if well else TROUBLE_KEPT_SECONDS), found
        return found

    def _route(self, route: WebhookRoute) -> list[Finding]:
        check = f"webhook {route.name}"
        by_key = self._by_key()
        found = access_checks.route_findings(check, route, by_key)
        if not route.deliver_only:
            profile = self.profiles.get(route.namespace, route.profile)
            found = [*access_checks.profile_findings(check, route.namespace, route.profile, profile), *found]
        return found or [ok(check, f"taken at /webhooks/{route.name}, style {route.style}")]

    def _profile(self, namespace: str, name: str) -> list[Finding]:
        profile = self.profiles.get(namespace, name)
        if profile is None:
            todo = f"make it, or take it out of the key's record: kubectl get profiles -n {namespace}"
            return [warn(f"Profile {name}", f"your key names it, and it is not in namespace {namespace}", todo)]
        return access_checks.approver_findings(profile, self._by_key(), self.owners(namespace))

    def _by_key(self) -> dict[str, dict[str, ChatAccount]]:
        return {
            channel: {account.account: account for account in of_channel().values()}
            for channel, of_channel in self.accounts.items()
        }


def _belongs(caller: ApiKeyRecord, bound: ChatAccount | WebhookRoute) -> bool:
    return bound.namespace == caller.namespace and bound.profile in caller.profiles


def _traffic(channel: str) -> list[Finding]:
    def count(name: str) -> int:
        return int(REGISTRY.get_sample_value(name, {"channel": channel}) or 0)

    strangers, refused = count("hermes_gateway_strangers_total"), count("hermes_gateway_signatures_refused_total")
    return platform_checks.traffic_findings(strangers, refused, channel)


def build_router(bindings: Bindings) -> APIRouter:
    """Build the route."""
    router = APIRouter(tags=["Health"])

    @router.get("/health/bindings", responses=problems())
    async def look(caller: AnyCaller) -> FindingPage:
        """Look for what is wrong with what is bound to your key's namespace and Profiles; platforms are asked."""
        return FindingPage(data=await bindings.look(caller))

    return router
