"""For whom a request is: the gateway says it, an agent's session says it for the agent."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts.crd.cron_job import CHAT_CHANNELS, DeliverTarget
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.jobs import JobOwner
from hermes_contracts.names import CRON_CHANNEL, HOME_CHANNEL, RoutingKey
from hermes_contracts.store_api import SUMMARIES, SessionIdsRequest
from hermes_operator.launch import route_of
from hermes_operator.state import Shared
from hermes_service.rpc import Caller, StoreClient

TOOLSET = "cronjob"
_STORE_SECONDS = 3.0


@dataclass(frozen=True)
class Client:
    """Who asks. `place`: routing key of the conversation's session; None for the gateway, which knows better."""

    by: JobOwner
    place: RoutingKey | None = None


@dataclass(frozen=True)
class Callers:
    """Finds out for whom a request is."""

    shared: Shared
    store: StoreClient

    async def client(self, caller: Caller, by: JobOwner | None) -> Client:
        """Return for whom. Raises HermesError FENCED for an agent whose epoch is over, FORBIDDEN for one that may not."""
        if caller.role != "agent":
            if by is None:
                raise HermesError(ErrorCode.INVALID, "by: say whose jobs these are")
            return Client(by)
        if by is not None:
            raise HermesError(ErrorCode.FORBIDDEN, "by: an agent's session says whose jobs these are")
        await self._check_epoch(caller)
        record = self.shared.cache.session_of(caller.sid)
        if record is None or record.deleting:
            raise HermesError(ErrorCode.NOT_FOUND, "the session of this agent is gone")
        profile = self.shared.cache.profiles.get(record.namespace, record.profile)
        if profile is None or TOOLSET not in profile.spec.toolsets:
            raise HermesError(ErrorCode.FORBIDDEN, f"the Profile {record.profile} has no toolset {TOOLSET}")
        route = route_of(record.view(), caller.sid)
        if route.key.channel == CRON_CHANNEL:
            raise HermesError(ErrorCode.FORBIDDEN, "a scheduled run keeps no schedules")
        owner = JobOwner(namespace=route.namespace, owner=route.owner, profiles=(route.profile,))
        return Client(owner, route.key)

    async def _check_epoch(self, caller: Caller) -> None:
        request = SessionIdsRequest(sids=(caller.sid,))
        found = await self.store.call(SUMMARIES, request, patience_seconds=_STORE_SECONDS)
        if [summary.epoch for summary in found.sessions] != [caller.epoch]:
            raise HermesError(ErrorCode.FENCED, f"epoch {caller.epoch} is not the session's any more")


def _may_be_here(key: RoutingKey, target: DeliverTarget) -> bool:
    """Tell whether a target may be where the agent was asked.

    A person's own session names no chat, and he writes from several, linked ones of other platforms among them: there
    the gateway's binding of accounts to namespaces is what holds.
    """
    if key.user and not key.chat:
        return target.channel in CHAT_CHANNELS and bool(target.chat)
    where = (target.channel, target.account, target.chat, target.thread)
    return where == (key.channel, key.account, key.chat, key.thread) and bool(key.chat)


def check_targets(client: Client, targets: tuple[DeliverTarget, ...]) -> None:
    """Raise HermesError FORBIDDEN for a place that an agent may not send to: it may to its conversation, and home."""
    key = client.place
    if key is None:
        return
    for number, target in enumerate(targets):
        at_home = target.channel == HOME_CHANNEL and target.account == client.by.owner
        if not at_home and not _may_be_here(key, target):
            where = f"{target.channel}:{target.account}"[:100]
            raise HermesError(
                ErrorCode.FORBIDDEN, f"deliver[{number}]: {where} is neither this conversation nor its owner's home"
            )
