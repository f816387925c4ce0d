"""A wire that can be cut: a TCP proxy in front of the API server."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from urllib.parse import urlsplit

import yaml


class Wire:
    """Forwards bytes to one address, until it is told not to."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._open: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._refuses = False
        self._server: asyncio.Server

    async def start(self) -> int:
        """Listen; returns the port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        self.cut()
        self._flows.set()
        self._server.close()
        await self._server.wait_closed()

    def cut(self) -> None:
        """End every connection and take no new one."""
        self._refuses = True
        for writer in self._open:
            writer.transport.abort()

    def freeze(self) -> None:
        """Keep connections and carry nothing over them, as a firewall that forgot them does."""
        self._flows.clear()

    def mend(self) -> None:
        """Carry everything again."""
        self._refuses = False
        self._flows.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, far_writer}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._carry(reader, far_writer))
                group.create_task(self._carry(far_reader, writer))
        finally:
            self._open -= {writer, far_writer}

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


async def through_wire(kubeconfig: Path, target: Path) -> Wire:
    """Write a kubeconfig that reaches the same API server over a wire that can be cut."""
    config = yaml.safe_load(kubeconfig.read_text())
    where = urlsplit(config["clusters"][0]["cluster"]["server"])
    wire = Wire(where.hostname or "", where.port or 443)
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{await wire.start()}"
    target.write_text(yaml.safe_dump(config))
    return wire
