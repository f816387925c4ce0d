"""Calls and serves the store's methods over the bus."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError, NoRespondersError, TimeoutError as NatsTimeout
from pydantic import BaseModel, ValidationError

from hermes_contracts import PROTOCOL_VERSION, subjects
from hermes_contracts.bus_permissions import may_reply_to
from hermes_contracts.envelopes import HEADER_TRACE
from hermes_contracts.errors import ErrorBody, ErrorCode, HermesError
from hermes_contracts.store_api import METHODS, Method, Reply
from hermes_service import tracing

log = structlog.get_logger()

Req = TypeVar("Req", bound=BaseModel)
Rep = TypeVar("Rep", bound=BaseModel)

_STORE_SUBJECTS = ("hermes.store.*.*.*", "hermes.svc.*.*")


class StoreClient:
    """Calls the store. A lost answer is asked for again, which every method allows, until `patience_seconds` are over."""

    def __init__(
        self, bus: Client, subject: Callable[[str], str], *, patience_seconds: float = 30.0, server: str = "the store"
    ) -> None:
        self._bus = bus
        self._server = server
        self._subject = subject
        self._patience_seconds = patience_seconds

    async def call(
        self, method: Method[Req, Rep], request: Req, *, timeout_seconds: float = 5.0, patience_seconds: float | None = None
    ) -> Rep:
        """Return the store's answer. Raises HermesError: the store's own, or UNAVAILABLE when patience ran out."""
        patience = self._patience_seconds if patience_seconds is None else patience_seconds
        deadline = time.monotonic() + patience
        payload = request.model_dump_json().encode()
        trace = tracing.current()
        headers = {HEADER_TRACE: trace} if trace else None
        pause = 0.05
        while True:
            try:
                message = await self._bus.request(
                    self._subject(method.name), payload, timeout=timeout_seconds, headers=headers
                )
                return _read_reply(method, message.data)
            except HermesError as error:
                if not error.retryable or time.monotonic() + pause > deadline:
                    raise
            except (NatsTimeout, NoRespondersError, NatsError) as error:
                if time.monotonic() + pause > deadline:
                    raise HermesError(
                        ErrorCode.UNAVAILABLE, f"{self._server} does not answer ({method.name})", retryable=True
                    ) from error
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, 2.0)


def _read_reply(method: Method[Req, Rep], data: bytes) -> Rep:
    reply = Reply.model_validate_json(data)
    if reply.error is not None:
        raise HermesError.from_body(reply.error)
    return method.reply.model_validate(reply.result or {})


@dataclass(frozen=True)
class Caller:
    """Who calls, as the bus enforced it in the subject. `sid` and `epoch` are an agent's only."""

    role: str
    sid: str = ""
    epoch: int = 0


@dataclass(frozen=True)
class Encoded:
    """A method's answer as JSON text: for pages of what is JSON already, which need not be read to be sent."""

    json: str


Handler = Callable[[Caller, BaseModel], Awaitable[BaseModel | Encoded]]


def parse_subject(subject: str) -> tuple[Caller, str] | None:
    """Return the caller and the method's name, or None for a subject that is none of ours."""
    tokens = subject.split(".")
    if len(tokens) == 5 and tokens[:2] in (["hermes", "store"], ["hermes", "jobs"]) and tokens[3].isdigit():
        return Caller("agent", tokens[2], int(tokens[3])), tokens[4]
    if len(tokens) == 4 and tokens[:2] in (["hermes", "svc"], ["hermes", "jobs"]):
        return Caller(tokens[2]), tokens[3]
    return None


class RpcServer:
    """Serves methods in a queue group, at most `concurrency` at once; the rest waits in the client library's queue."""

    def __init__(
        self,
        bus: Client,
        handlers: dict[str, Handler],
        *,
        concurrency: int = 64,
        methods: Iterable[Method[Any, Any]] = METHODS,
        subjects: tuple[str, ...] = _STORE_SUBJECTS,
    ) -> None:
        self._bus = bus
        self._methods = {method.name: method for method in methods}
        self._subjects = subjects
        self._handlers = handlers
        self._slots = asyncio.Semaphore(concurrency)
        self._running: set[asyncio.Task[None]] = set()
        self._subscriptions: list[Subscription] = []

    async def start(self, queue: str) -> None:
        """Subscribe; messages are answered until `stop`."""
        for subject in self._subjects:
            self._subscriptions.append(await self._bus.subscribe(subject, queue=queue, cb=self._receive))

    async def stop(self) -> None:
        """Take no more messages and answer those that were taken; others of the queue group get the rest."""
        for subscription in self._subscriptions:
            await subscription.drain()  # type: ignore[no-untyped-call]
        while self._running:
            await asyncio.wait(self._running)
        await self._bus.flush()

    async def _receive(self, message: Msg) -> None:
        await self._slots.acquire()
        task = asyncio.create_task(self._answer(message))
        self._running.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._slots.release()

    async def _answer(self, message: Msg) -> None:
        parsed = parse_subject(message.subject)
        # No reply subject: the caller does not want to know (an agent's report of being busy or idle).
        if parsed is None or (message.reply and not may_reply_to(message.subject, message.reply)):
            log.warning("rpc.refused", subject=message.subject[:200], reason="reply subject is not the caller's inbox")
            return
        caller, name = parsed
        if message.headers:
            tracing.adopt(message.headers.get(HEADER_TRACE))
        started = time.perf_counter()
        error, reply = await self._dispatch(caller, name, message.data)
        code = error.code if error else "ok"
        log.debug(
            "rpc.call", method=name, role=caller.role, sid=caller.sid, code=code, seconds=time.perf_counter() - started
        )
        if message.reply:
            await self._bus.publish(message.reply, reply)

    async def _dispatch(self, caller: Caller, name: str, data: bytes) -> tuple[ErrorBody | None, bytes]:
        """Return what went wrong, if anything did, and the reply."""
        try:
            result = await self._serve(caller, name, data)
            # A `Reply`, put together as text: pages of transcripts are too big to be turned into JSON twice.
            text = result.json if isinstance(result, Encoded) else result.model_dump_json()
            return None, b'{"version":%d,"result":%s,"error":null}' % (PROTOCOL_VERSION, text.encode())
        except HermesError as error:
            body = error.body()
            return body, Reply(error=body).model_dump_json().encode()

    async def _serve(self, caller: Caller, name: str, data: bytes) -> BaseModel | Encoded:
        """Return the method's answer. Raises HermesError and nothing else."""
        try:
            method = self._methods.get(name)
            if method is None or name not in self._handlers:
                raise HermesError(ErrorCode.NOT_FOUND, f"there is no method {name[:64]!r}")
            if caller.role not in method.callers:
                raise HermesError(ErrorCode.FORBIDDEN, f"{caller.role[:32]} may not call {name}")
            request = method.request.model_validate_json(data)
            return await self._handlers[name](caller, request)
        except ValidationError as error:
            where = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5])
            raise HermesError(ErrorCode.INVALID, f"{name}: {where}") from error
        except HermesError:
            raise
        except Exception as error:  # the outermost loop of a request: a bug must not stop the next one
            log.exception("rpc.failed", method=name, role=caller.role)
            raise HermesError(ErrorCode.INTERNAL, f"{name} failed", retryable=True) from error


def agent_store_client(bus: Client, sid: str, epoch: int, *, patience_seconds: float = 120.0) -> StoreClient:
    """Return the store as the agent of one session and epoch calls it."""
    return StoreClient(bus, lambda method: subjects.agent_store(sid, epoch, method), patience_seconds=patience_seconds)


def agent_jobs_client(bus: Client, sid: str, epoch: int, *, patience_seconds: float = 15.0) -> StoreClient:
    """Return the operator's jobs as the agent of one session and epoch calls them."""
    return StoreClient(
        bus,
        lambda method: subjects.agent_jobs(sid, epoch, method),
        patience_seconds=patience_seconds,
        server="the operator",
    )


def service_store_client(bus: Client, role: str, *, patience_seconds: float = 10.0) -> StoreClient:
    """Return the store as one of our services calls it."""
    return StoreClient(bus, lambda method: subjects.service_store(role, method), patience_seconds=patience_seconds)
