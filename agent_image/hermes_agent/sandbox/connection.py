"""One connection to sandboxd: frames to channels and back, with bounds on everything that waits."""

from __future__ import annotations

import asyncio
import json
import struct
from collections import deque

from hermes_agent.sandbox import frames
from hermes_agent.sandbox.errors import ProtocolError, SandboxError, SandboxGone, SandboxTimeout, error_for
from hermes_agent.sandbox.frames import Kind
from hermes_agent.sandbox.messages import Failure, Hello, parse

GONE = (
    "the sandbox is gone: it restarted or was stopped; commands that ran there were killed, files in the workspace are kept"
)
CREDIT_STEP = 256 * 1024
"""Credit goes back in pieces of this many bytes, not for every frame."""

SMALL = 4096
"""Shorter pieces that wait are joined, so that a flood of single bytes costs no more memory than its bytes."""


class Channel:
    """One request and what comes back for it. Frames wait here at most up to the window."""

    def __init__(self, connection: Connection, number: int, most: int | None) -> None:
        self.number = number
        self.ended = False
        self._connection = connection
        self._waiting: deque[tuple[Kind, bytes]] = deque()
        self._arrived = asyncio.Event()
        self._room = frames.OUTPUT_WINDOW if most is None else most
        self._consumed = 0
        self._credited = most is None
        self._input_room = frames.INPUT_WINDOW
        self._input_arrived = asyncio.Event()
        self._error: SandboxError | None = None

    def deliver(self, kind: Kind, payload: bytes) -> None:
        """A frame arrived.

        Raises:
            ProtocolError: more than the window allows.
        """
        if kind is Kind.CREDIT:
            self._add_input_room(payload)
            return
        if kind in (Kind.STDOUT, Kind.STDERR):
            self._room -= len(payload)
            if self._room < 0 or not payload:
                raise ProtocolError("the sandbox sent more output than it had room for")
            if self._waiting and self._waiting[-1][0] is kind and len(self._waiting[-1][1]) < SMALL:
                payload = self._waiting.pop()[1] + payload
        elif kind in (Kind.RESULT, Kind.ERROR):
            self.ended = True
            self._input_arrived.set()
        else:
            raise ProtocolError(f"the sandbox sent an unexpected {kind.name}")
        self._waiting.append((kind, payload))
        self._arrived.set()

    def fail(self, error: SandboxError) -> None:
        """The connection is lost: whoever waits gets the error after what has already arrived."""
        self._error = self._error or error
        self.ended = True
        self._arrived.set()
        self._input_arrived.set()

    async def receive(self) -> tuple[Kind, bytes]:
        """The next frame: output, or the result that is the last one.

        Raises:
            SandboxError: the request failed; its subclass says how.
            SandboxGone: the connection was lost.
        """
        while not self._waiting:
            if self._error:
                raise self._error
            self._arrived.clear()
            await self._arrived.wait()
        kind, payload = self._waiting.popleft()
        if kind is Kind.ERROR:
            failure = parse(Failure, payload)
            raise error_for(failure.code, failure.message)
        if kind is not Kind.RESULT and self._credited:
            self._consumed += len(payload)
            if self._consumed >= CREDIT_STEP and not self.ended:
                self._room += self._consumed
                self._connection.send(Kind.CREDIT, self.number, struct.pack(">I", self._consumed))
                self._consumed = 0
        return kind, payload

    async def send_input(self, data: bytes) -> None:
        """Send input, waiting for room; after the request has ended the rest is dropped, as a closed pipe would."""
        view = memoryview(data)
        while view and not self.ended:
            if not self._input_room:
                self._input_arrived.clear()
                await self._input_arrived.wait()
                continue
            piece = view[: min(self._input_room, frames.MAX_PAYLOAD // 4)]
            self._input_room -= len(piece)
            self._connection.send(Kind.STDIN, self.number, bytes(piece))
            view = view[len(piece) :]
            await self._connection.drained()

    def end_input(self) -> None:
        """Say that the input is complete."""
        if not self.ended:
            self._connection.send(Kind.STDIN_END, self.number)

    def control(self, message: dict[str, object]) -> None:
        """Send a signal or a terminal size; does nothing once the request has ended."""
        if not self.ended:
            self._connection.send(Kind.CONTROL, self.number, json.dumps(message).encode())

    def release(self) -> None:
        """Forget the channel; what still runs for it is killed."""
        self.control({"op": "cancel"})
        self.ended = True
        self._connection.forget(self.number)

    def _add_input_room(self, payload: bytes) -> None:
        if len(payload) != 4:
            raise ProtocolError("the sandbox sent a malformed credit")
        self._input_room += struct.unpack(">I", payload)[0]
        if self._input_room > frames.INPUT_WINDOW:
            raise ProtocolError("the sandbox gave more room than there is")
        self._input_arrived.set()


class Connection(asyncio.BufferedProtocol):
    """The socket. Use `open_connection`."""

    def __init__(self) -> None:
        self.workspace = ""
        self.lost: SandboxError | None = None
        self._transport: asyncio.Transport | None = None
        self._frames = frames.FrameBuffer()
        self._channels: dict[int, Channel] = {}
        self._count = 0
        self._writable = asyncio.Event()
        self._writable.set()
        self._greeted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=frames.OUTPUT_WINDOW)
        self.send(Kind.HELLO, 0, json.dumps({"versions": [frames.VERSION]}).encode())

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 the event loop's signature
        """Where the event loop puts received bytes."""
        return self._frames.free()

    def buffer_updated(self, nbytes: int) -> None:
        """Cut frames and hand them out; a broken one ends the connection."""
        try:
            for kind, stream, payload in self._frames.filled(nbytes):
                self._deliver(kind, stream, payload)
        except SandboxError as error:
            self.close(error)

    def _deliver(self, kind: Kind, stream: int, payload: bytes) -> None:
        if stream == 0:
            if kind is Kind.ERROR:
                raise ProtocolError(f"the sandbox closed the connection: {parse(Failure, payload).message}")
            self._greet(kind, payload)
            return
        channel = self._channels.get(stream)
        if channel is None:
            return  # released while this was on its way
        channel.deliver(kind, payload)
        if channel.ended:
            self.forget(stream)

    def _greet(self, kind: Kind, payload: bytes) -> None:
        if kind is not Kind.HELLO or self._greeted.done():
            raise ProtocolError(f"the sandbox sent an unexpected {kind.name}")
        hello = parse(Hello, payload)
        if hello.version != frames.VERSION:
            raise ProtocolError(f"the sandbox speaks version {hello.version}, this agent {frames.VERSION}")
        self.workspace = hello.workspace
        self._greeted.set_result(None)

    def pause_writing(self) -> None:
        """The socket's send buffer is full."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """There is room again."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 the event loop's signature
        """The sandbox went away."""
        self.close(SandboxGone(GONE))

    async def greeted(self) -> None:
        """Wait for the sandbox's greeting."""
        await asyncio.shield(self._greeted)

    async def drained(self) -> None:
        """Wait until the socket takes more."""
        await self._writable.wait()

    def send(self, kind: Kind, stream: int, payload: bytes = b"") -> None:
        """Queue one frame; on a lost connection it is dropped, the channel's error says so."""
        if self._transport and not self.lost:
            self._transport.write(frames.pack(kind, stream, payload))

    def request(self, body: dict[str, object], *, most: int | None = None) -> Channel:
        """Open a channel.

        Args:
            body: The request object of docs/exec-protocol.md.
            most: Bytes of output accepted in all; None for a window that credit renews.

        Raises:
            SandboxGone: the connection is lost.
            TooLarge: the request does not fit one frame.
        """
        if self.lost:
            raise SandboxGone(GONE)
        payload = json.dumps(body, separators=(",", ":")).encode()
        if len(payload) > frames.MAX_REQUEST:
            raise error_for("too_large", f"the request has {len(payload)} bytes; {frames.MAX_REQUEST} is the most")
        self._count += 1
        channel = Channel(self, self._count, most)
        self._channels[self._count] = channel
        self.send(Kind.REQUEST, self._count, payload)
        return channel

    def forget(self, stream: int) -> None:
        """Deliver nothing more to this channel."""
        self._channels.pop(stream, None)

    def close(self, error: SandboxError | None = None) -> None:
        """End the connection, and everything that waits on it."""
        if self.lost:
            return
        self.lost = error or SandboxGone(GONE)
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            channel.fail(self.lost)
        self._writable.set()
        if not self._greeted.done():
            self._greeted.set_exception(self.lost)
            self._greeted.exception()
        if self._transport:
            self._transport.abort()


async def open_connection(path: str, *, timeout: float) -> Connection:
    """Connect and greet, waiting up to `timeout` seconds for a sandbox that is still starting.

    Raises:
        SandboxTimeout: there was no sandbox, or no greeting, in that time.
        ProtocolError: whatever listens there does not speak our protocol.
    """
    try:
        async with asyncio.timeout(timeout):
            while True:
                connection: Connection | None = None
                try:
                    _, connection = await asyncio.get_running_loop().create_unix_connection(Connection, path)
                    await connection.greeted()
                    return connection
                except ProtocolError:
                    raise
                except (OSError, SandboxGone):
                    await asyncio.sleep(0.01)
                except BaseException:
                    if connection:
                        connection.close()
                    raise
    except TimeoutError as error:
        raise SandboxTimeout(f"no sandbox answered at {path} within {timeout:g} s; is sandboxd running?") from error
