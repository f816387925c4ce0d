"""One client: frames in, frames out, and what it started."""

from __future__ import annotations

import json
import select
import struct
from collections import deque

from sandboxd.protocol import (
    CONGESTED,
    CONTROL,
    CREDIT,
    ERROR,
    HEADER,
    HELLO,
    MAX_PAYLOAD,
    MAX_REQUEST,
    MAX_STREAMS,
    MAX_UNSENT,
    REQUEST,
    RESULT,
    STDIN,
    STDIN_END,
    VERSION,
    Refused,
    Violation,
    message_of,
    refusal,
)
from sandboxd.system import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any, Deque, Dict, List, Optional

    from sandboxd.command import Command
    from sandboxd.daemon import Daemon
    from sandboxd.protocol import Json


class Connection:
    """One client: frames in, frames out, its streams and its background commands."""

    def __init__(self, daemon: Daemon, sock: socket.socket) -> None:
        self.daemon = daemon
        self.sock = sock
        self.fd = sock.fileno()
        self.buffer = bytearray()
        self.unsent_parts: Deque[memoryview] = deque()
        self.unsent = 0
        self.greeted = False
        self.open = True
        self.streams: Dict[int, Any] = {}
        self.commands: List[Command] = []
        self.blocked: set[Any] = set()
        self.daemon.loop.watch(self.fd, select.EPOLLIN, self.ready)

    def send(self, kind: int, stream: int, payload: bytes) -> None:
        """Send or queue one frame."""
        if not self.open:
            return
        header = HEADER.pack(len(payload), kind, stream)
        sent = 0
        if not self.unsent_parts:
            try:
                sent = self.sock.sendmsg((header, payload))
            except BlockingIOError:
                pass
            except OSError:
                self.close("gone")
                return
            if sent == len(header) + len(payload):
                return
            self.daemon.loop.epoll.modify(self.fd, select.EPOLLIN | select.EPOLLOUT)
        for part in (memoryview(header), memoryview(payload)):
            if sent < len(part):
                self.unsent_parts.append(part[sent:])
                self.unsent += len(part) - sent
            sent = max(0, sent - len(part))
        if self.unsent > MAX_UNSENT:
            self.close("client does not read")

    def ready(self, mask: int) -> None:
        """The socket can be read or written."""
        try:
            if mask & select.EPOLLOUT:
                self.flush()
            if self.open and mask & ~select.EPOLLOUT:
                data = self.sock.recv(MAX_PAYLOAD)
                if not data:
                    self.close("closed")
                    return
                self.buffer += data
                self.parse()
        except BlockingIOError:
            return
        except OSError as error:
            self.close(str(error))
        except Violation as error:
            self.send(ERROR, 0, json.dumps({"code": "protocol", "message": str(error)}).encode())
            self.close("protocol: %s" % error)

    def flush(self) -> None:
        """Send what waits; wake the streams that waited for room."""
        while self.unsent_parts:
            part = self.unsent_parts[0]
            sent = self.sock.send(part)
            self.unsent -= sent
            if sent < len(part):
                self.unsent_parts[0] = part[sent:]
                break
            self.unsent_parts.popleft()
        if not self.unsent_parts:
            self.daemon.loop.epoll.modify(self.fd, select.EPOLLIN)
        if self.unsent <= CONGESTED // 2:
            blocked, self.blocked = self.blocked, set()
            for stream in blocked:
                stream.pause(False)

    def parse(self) -> None:
        """Handle every whole frame."""
        offset = 0
        while self.open and len(self.buffer) - offset >= HEADER.size:
            length, kind, stream = HEADER.unpack_from(self.buffer, offset)
            if length > (MAX_REQUEST if kind == REQUEST else MAX_PAYLOAD):
                raise Violation("frame of %d bytes" % length)
            end = offset + HEADER.size + length
            if len(self.buffer) < end:
                break
            payload = bytes(memoryview(self.buffer)[offset + HEADER.size : end])
            offset = end
            self.frame(kind, stream, payload)
        del self.buffer[:offset]

    def frame(self, kind: int, stream: int, payload: bytes) -> None:
        """One frame of the client."""
        if not self.greeted:
            self.greet(kind, payload)
        elif kind == REQUEST:
            self.request(stream, payload)
        elif kind not in (STDIN, STDIN_END, CREDIT, CONTROL):
            raise Violation("frame type %d" % kind)
        else:
            target = self.streams.get(stream)
            if target is None:
                return  # it ended while this was on its way
            if kind == STDIN:
                target.feed(payload)
            elif kind == STDIN_END:
                target.end_input()
            elif kind == CREDIT:
                if len(payload) != 4:
                    raise Violation("credit of %d bytes" % len(payload))
                target.credit(struct.unpack(">I", payload)[0])
            else:
                self.control(target, stream, message_of(payload))

    def greet(self, kind: int, payload: bytes) -> None:
        """Agree on a version."""
        versions = message_of(payload).get("versions") if kind == HELLO else None
        if not isinstance(versions, list) or VERSION not in versions:
            raise Violation("speak version %d first" % VERSION)
        self.greeted = True
        self.send(HELLO, 0, json.dumps({"version": VERSION, "workspace": self.daemon.paths.workspace}).encode())

    def control(self, target: Any, stream: int, message: Json) -> None:
        """Cancel any stream; signal or resize a command."""
        try:
            if message.get("op") == "cancel":
                self.streams.pop(stream, None)
                target.cancel()
            else:
                target.control(message)
        except Refused as error:
            raise Violation(str(error)) from error

    def request(self, stream: int, payload: bytes) -> None:
        """Open a stream."""
        if stream == 0 or stream in self.streams:
            raise Violation("stream %d is taken" % stream)
        request = message_of(payload)
        try:
            if len(self.streams) >= MAX_STREAMS:
                raise Refused("busy", "too many open requests")
            self.daemon.requests.dispatch(self, stream, request)
        except Refused as error:
            self.fail(stream, error)
        except OSError as error:
            self.fail(stream, refusal(error))
        except ValueError as error:
            self.fail(stream, Refused("invalid", str(error)[:500]))
        except Exception as error:  # noqa: BLE001 a mistake of ours must not end other people's commands
            log("mistake", error=repr(error), op=str(request.get("op"))[:50])
            self.fail(stream, Refused("internal", repr(error)[:500]))

    def answer(self, stream: int, value: Any, error: Optional[BaseException]) -> None:
        """End a stream with what a thread came back with."""
        if error is None:
            self.finish(stream, RESULT, value)
        elif isinstance(error, OSError):
            self.fail(stream, refusal(error))
        elif isinstance(error, ValueError):
            self.fail(stream, Refused("invalid", str(error)[:500]))
        else:
            self.fail(stream, error if isinstance(error, Refused) else Refused("internal", repr(error)[:500]))

    def fail(self, stream: int, error: Refused) -> None:
        """End a stream with an error."""
        self.finish(stream, ERROR, {"code": error.code, "message": str(error)[:2000]})

    def finish(self, stream: int, kind: int, value: Json) -> None:
        """End a stream."""
        self.streams.pop(stream, None)
        self.send(kind, stream, json.dumps(value, separators=(",", ":")).encode())

    def close(self, why: str) -> None:
        """The client is gone: so is everything it started."""
        if not self.open:
            return
        self.open = False
        self.daemon.loop.forget(self.fd)
        self.sock.close()
        self.daemon.connections.discard(self)
        for target in list(self.streams.values()):
            target.cancel()
        self.streams = {}
        for command in list(self.commands):
            command.abandon()
        log("client_gone", why=why)
