"""A pod that has started everything and has no session: says that it is there until it is told who it is.

Its keys are made here and live in memory, so whatever is sealed for it dies with the process: an agent that starts again in
the same pod is another candidate, and the operator replaces a pod that it has given away already.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from pydantic import ValidationError

from hermes_agent.model.client import HttpModelClient
from hermes_agent.settings import ModelsToken, SessionFolder, WaitingFolder
from hermes_contracts import subjects
from hermes_contracts.warm_pool import HELLO_SECONDS, Hello, Identity, Sealed
from hermes_service import bus
from hermes_service.bus import BusCredentials
from hermes_service.bus_keys import new_user_seed, public_key_of
from hermes_service.sealing import SealError, SealingKey

log = structlog.get_logger()

_CLOSE_SECONDS = 2.0


class WaitingEnded(Exception):
    """The connection to the bus is gone for good: the bootstrap credential has run out or was refused."""


class Candidate:
    """The keys of one process, and the one identity that it takes."""

    def __init__(self) -> None:
        self._sealing = SealingKey()
        self._seed = new_user_seed()
        self.identity: Identity | None = None

    def __repr__(self) -> str:
        """Keep keys out of logs."""
        return "Candidate(...)"

    def hello(self) -> Hello:
        """Return what is to be said now."""
        return Hello(seal_key=self._sealing.public, bus_key=public_key_of(self._seed), accepted=self.identity is not None)

    def take(self, data: bytes) -> bool:
        """Take the first identity that opens; a second one, or anything else, changes nothing and gives False."""
        if self.identity is not None:
            return False
        try:
            self.identity = Identity.model_validate_json(self._sealing.open(Sealed.model_validate_json(data).box))
        except ValidationError as error:
            log.warning("identity.unreadable", problems=error.error_count())
        except SealError:
            log.warning("identity.not_for_us")
        return self.identity is not None

    def folder(self) -> SessionFolder:
        """Return what a session's own pod reads from its folder. Only after an identity was taken."""
        assert self.identity is not None
        credentials = BusCredentials(self.identity.bus_jwt, self._seed)
        return SessionFolder(self.identity.config, credentials, ModelsToken(self.identity.models_token))


async def wait_for_identity(folder: WaitingFolder) -> SessionFolder | None:
    """Wait until the operator says who this is; None when the pod is told to end. Raises WaitingEnded."""
    uid = folder.waiting.pod_uid
    client = await bus.connect(
        folder.waiting.bus_url, folder.credentials, name=f"warm {uid}", inbox=subjects.warm_inbox(uid)
    )
    await _warm_up(folder)
    candidate, changed, ended = Candidate(), asyncio.Event(), asyncio.Event()

    async def take(message: Msg) -> None:
        if candidate.take(message.data):
            changed.set()

    def end() -> None:
        ended.set()
        changed.set()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, end)
    try:
        await client.subscribe(subjects.warm_claim(uid), cb=take)
        log.info("waiting.ready")
        while not changed.is_set():
            await _say(client, uid, candidate)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HELLO_SECONDS):
                    await changed.wait()
        if ended.is_set():
            log.info("waiting.ended")
            return None
        await _say(client, uid, candidate)
        return candidate.folder()
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        await _close(client)


async def _warm_up(folder: WaitingFolder) -> None:
    model = HttpModelClient(folder.waiting.models_url, ModelsToken(""), silence_seconds=_CLOSE_SECONDS)
    try:
        await model.warm_up()
    finally:
        await model.close()


async def _say(client: Client, uid: str, candidate: Candidate) -> None:
    if client.is_closed:
        raise WaitingEnded("the connection to the bus was closed for good")
    # While the bus is away nothing is said; the next round says it again.
    with contextlib.suppress(NatsError, OSError):
        await client.publish(subjects.warm_hello(uid), candidate.hello().model_dump_json().encode())


async def _close(client: Client) -> None:
    with contextlib.suppress(TimeoutError, NatsError, OSError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await client.close()
