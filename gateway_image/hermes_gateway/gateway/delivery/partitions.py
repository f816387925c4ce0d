"""Delivers every partition whose lease this gateway can get."""

from __future__ import annotations

import asyncio

import structlog
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.kv import KeyValue

from hermes_contracts import subjects
from hermes_gateway.gateway.delivery.deliver import Deliverer
from hermes_gateway.gateway.delivery.lease import Lease

log = structlog.get_logger()


async def deliver_partitions(js: JetStreamContext, instance: str, deliverer: Deliverer) -> None:
    """Run for ever."""
    bucket = await _leases(js)

    async def deliver(partition: int) -> None:
        async def work(holder: str) -> None:
            await deliverer.run(partition, holder)

        await Lease(bucket, f"out-{partition}", instance).run(work)

    async with asyncio.TaskGroup() as group:
        for partition in range(subjects.OUT_PARTITIONS):
            group.create_task(deliver(partition))


async def _leases(js: JetStreamContext) -> KeyValue:
    """Return the bucket, which the operator may not have made yet."""
    while True:
        try:
            return await js.key_value(subjects.LEASES_BUCKET)
        except (NatsError, TimeoutError) as error:
            log.info("delivery.no_leases", error=str(error)[:200] or type(error).__name__)
            await asyncio.sleep(2.0)
