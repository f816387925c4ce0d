"""Accounts of a platform that one replica at a time listens for, each under a lease."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Protocol, TypeVar

from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.kv import KeyValue

from hermes_contracts import subjects
from hermes_gateway.gateway.delivery.lease import Lease
from hermes_gateway.gateway.delivery.share import Share

_LOOK_SECONDS = 2.0
_MOST = 1000


class Account(Protocol):
    """What a lease is named after."""

    @property
    def account(self) -> str:
        """Name of the account in routing keys."""
        ...


A = TypeVar("A", bound=Account)


async def held_by_one(
    platform: str,
    wanted: Callable[[], frozenset[A]],
    listen: Callable[[A, asyncio.Event], Coroutine[None, None, None]],
    js: JetStreamContext,
    instance: str,
) -> None:
    """Have each account listened for by one replica, for ever; an account that changes is begun anew."""

    async def hold(bucket: KeyValue, account: A) -> None:
        async def work(_: str, finish: asyncio.Event) -> None:
            await listen(account, finish)

        await Lease(bucket, f"{platform}-{account.account}", instance, Share(_MOST)).run(work)

    bucket: KeyValue | None = None
    running: dict[A, asyncio.Task[None]] = {}
    async with asyncio.TaskGroup() as group:
        while True:
            accounts = wanted()
            if accounts and bucket is None:
                with contextlib.suppress(NatsError, TimeoutError):
                    bucket = await js.key_value(subjects.LEASES_BUCKET)
            for account in running.keys() - accounts:
                running.pop(account).cancel()
            if bucket is not None:
                for account in accounts - running.keys():
                    running[account] = group.create_task(hold(bucket, account))
            await asyncio.sleep(_LOOK_SECONDS)
