"""The door to NATS: connects with a user JWT that may be renewed while connected, and never gives up reconnecting."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nats
import nkeys
import structlog
from nats.aio.client import Client

import hermes_service.waiting  # noqa: F401  (nats-py waits by what this repairs)

log = structlog.get_logger()


@dataclass
class BusCredentials:
    """A user JWT and the seed of its key. `jwt` is replaced on renewal and used at the next reconnect."""

    jwt: str
    seed: str

    def __repr__(self) -> str:
        """Keep the seed out of logs and tracebacks."""
        return "BusCredentials(...)"

    @classmethod
    def parse(cls, text: str) -> BusCredentials:
        """Read the format of a `.creds` file. Raises ValueError when a part is missing."""
        blocks = re.findall(r"-----BEGIN [A-Z ]+-----\s*(\S+)\s*-+END", text)
        if len(blocks) != 2:
            raise ValueError("bus credentials: expected a user JWT and an nkey seed")
        return cls(jwt=blocks[0], seed=blocks[1])

    @classmethod
    def load(cls, path: Path) -> BusCredentials:
        """Read a `.creds` file."""
        return cls.parse(path.read_text())

    def render(self) -> str:
        """Return the text of a `.creds` file."""
        return (
            f"-----BEGIN NATS USER JWT-----\n{self.jwt}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{self.seed}\n------END USER NKEY SEED------\n"
        )


async def connect(
    url: str,
    credentials: BusCredentials,
    *,
    name: str,
    inbox: str,
    on_reconnected: Callable[[], None] | None = None,
) -> Client:
    """Connect, waiting for the server if need be; afterwards reconnect for ever.

    `inbox` is the prefix that the credential may receive replies under. `on_reconnected` is called after each reconnect,
    when subscriptions are back: requests that were waiting on the server are gone.
    """

    def sign(nonce: str) -> bytes:
        signature: bytes = nkeys.from_seed(credentials.seed.encode()).sign(nonce.encode())
        return base64.b64encode(signature)

    async def on_error(error: Exception) -> None:
        log.warning("bus.error", error=str(error)[:300])

    async def on_disconnect() -> None:
        log.info("bus.disconnected")

    async def on_reconnect() -> None:
        log.info("bus.reconnected")
        if on_reconnected is not None:
            on_reconnected()

    return await nats.connect(
        url,
        name=name,
        user_jwt_cb=lambda: bytearray(credentials.jwt.encode()),
        signature_cb=sign,
        inbox_prefix=inbox,
        error_cb=on_error,
        disconnected_cb=on_disconnect,
        reconnected_cb=on_reconnect,
        connect_timeout=5,
        reconnect_time_wait=0.25,
        max_reconnect_attempts=-1,
        ping_interval=10,
        max_outstanding_pings=2,
        dont_randomize=True,
    )


async def follow_file(client: Client, credentials: BusCredentials, path: Path, *, seconds: float = 5.0) -> None:
    """Take up what a mounted credential becomes, until cancelled: connects anew, for the rights of the newer one.

    The server knows a connection's rights from its start only. A file that is away or half written is read again later.
    """
    while True:
        await asyncio.sleep(seconds)
        try:
            found = BusCredentials.load(path)
        except (OSError, ValueError):
            continue
        if found == credentials:
            continue
        credentials.jwt, credentials.seed = found.jwt, found.seed
        log.info("bus.credentials_changed")
        if client.is_connected:
            await client.force_reconnect()
