"""The daemon: listens, lets the agent in, and ties the parts together."""

from __future__ import annotations

import os
import select
import socket
import struct
import sys

from sandboxd.connection import Connection
from sandboxd.guard import Guard
from sandboxd.loop import Loop
from sandboxd.paths import Paths
from sandboxd.protocol import MAX_CONNECTIONS
from sandboxd.requests import Requests
from sandboxd.system import log, quietly
from sandboxd.trees import Trees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sandboxd.protocol import Json


class Daemon:
    """One workspace, one socket, and the parts that serve it."""

    def __init__(self, options: Json) -> None:
        self.options = options
        self.program = os.path.abspath(sys.argv[0])
        self.loop = Loop()
        self.paths = Paths(options["workspace"], options["allow_root"])
        self.connections: set[Connection] = set()
        self.trees = Trees(self.loop)
        self.requests = Requests(self)
        self.ticking = False
        self.listener = self.listen(options["socket"])
        self.guard = Guard(self, options)
        self.loop.on_wake = self.trees.reap

    def listen(self, path: str) -> socket.socket:
        """Take the socket over from a daemon that died; a living one is an error."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            probe.connect(path)
            raise SystemExit("socket: %s is served by another process" % path)
        except OSError:
            quietly(os.unlink, path)
        finally:
            probe.close()
        listener.bind(path)
        os.chmod(path, 0o660)
        listener.listen(16)
        listener.setblocking(False)
        self.loop.watch(listener.fileno(), select.EPOLLIN, self.accept)
        return listener

    def accept(self, _mask: int) -> None:
        """Let the agent in, and nobody else: a command could otherwise start another that outlives its limits."""
        accepted = quietly(self.listener.accept)
        if accepted is None:
            return
        sock = accepted[0]
        _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        wanted = self.options["peer_uid"]
        if (wanted is not None and uid != wanted) or len(self.connections) >= MAX_CONNECTIONS:
            log("refused", uid=uid, connections=len(self.connections))
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self.connections.add(Connection(self, sock))

    def stop(self) -> None:
        """SIGTERM: nothing is left running, and the socket is gone."""
        self.trees.stopping = True
        quietly(os.unlink, self.options["socket"])
        for connection in list(self.connections):
            connection.close("stopping")
        self.loop.after(0.0, self.trees.reap)

    def guard_soon(self) -> None:
        """A command has started: look at it soon, and from then on as often as the guard says."""
        if not self.ticking:
            self.ticking = True
            self.loop.after(0.02, self.tick)

    def tick(self) -> None:
        """Run the guards while there is anything to guard."""
        self.ticking = bool(self.trees.named)
        if self.ticking:
            self.loop.after(self.guard.tick(), self.tick)
