"""Delivers this gateway's share of the partitions: those whose lease it gets."""

from __future__ import annotations

import asyncio

import structlog
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.kv import KeyValue

from hermes_contracts import subjects
from hermes_gateway.gateway import metrics
from hermes_gateway.gateway.delivery.deliver import Deliverer
from hermes_gateway.gateway.delivery.lease import Lease
from hermes_gateway.gateway.delivery.members import Members
from hermes_gateway.gateway.delivery.previews import Previews
from hermes_gateway.gateway.delivery.share import Share, fair_share

log = structlog.get_logger()


async def deliver_partitions(
    bus: Client, js: JetStreamContext, instance: str, deliverer: Deliverer, previews: Previews
) -> None:
    """Run for ever."""
    bucket = await _leases(js)
    share = Share()

    def changed(replicas: int) -> None:
        limit = fair_share(subjects.OUT_PARTITIONS, replicas)
        if limit != share.limit:
            log.info("delivery.share", replicas=replicas, partitions=limit)
        share.limit = limit
        metrics.REPLICAS.set(replicas)

    async def deliver(partition: int) -> None:
        async def work(holder: str, finish: asyncio.Event) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(previews.follow(partition, finish))
                group.create_task(deliverer.run(partition, holder, finish))

        await Lease(bucket, f"out-{partition}", instance, share).run(work)

    async with asyncio.TaskGroup() as group:
        group.create_task(Members(bus, bucket, instance, changed).run())
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
