"""Listens for requests about jobs while this operator leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from nats.aio.client import Client

from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Role
from hermes_contracts.jobs import CREATE_JOB, DELETE_JOB, GET_JOB, JOB_METHODS, LIST_JOBS, RUN_JOB, UPDATE_JOB
from hermes_operator.jobs.desk import Desk
from hermes_service.rpc import Handler, RpcServer

_CONCURRENCY = 8
_QUEUE = "jobs"


async def serve_jobs(bus: Client, desk: Desk) -> None:
    """Answer until cancelled."""
    handlers: dict[str, Callable[..., Awaitable[Any]]] = {
        LIST_JOBS.name: desk.list_jobs,
        GET_JOB.name: desk.get,
        CREATE_JOB.name: desk.create,
        UPDATE_JOB.name: desk.update,
        DELETE_JOB.name: desk.delete,
        RUN_JOB.name: desk.run,
    }
    server = RpcServer(
        bus,
        cast("dict[str, Handler]", handlers),
        concurrency=_CONCURRENCY,
        methods=JOB_METHODS,
        subjects=(subjects.jobs(Role.GATEWAY, "*"), subjects.agent_jobs("*", "*", "*")),
    )
    await server.start(_QUEUE)
    try:
        await asyncio.Event().wait()
    finally:
        await server.stop()
