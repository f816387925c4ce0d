"""Starting a process, what is kept of its outputs, and the size of its terminal."""

from __future__ import annotations

import fcntl
import os
import signal
import struct

from sandboxd.protocol import number
from sandboxd.ring import Ring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

    from sandboxd.protocol import Json


class Output:
    """One output of a command: the descriptor it is read from and, when its size is limited, what is kept of it."""

    def __init__(self, fd: int, channel: int, limit: int) -> None:
        self.fd = fd
        self.channel = channel
        self.head = limit * 2 // 5
        self.tail = Ring(limit - self.head)
        self.sent = 0


def spawn(argv: List[str], environment: Dict[str, str], cwd: str, fds: Dict[int, int], terminal: str = "") -> int:
    """Start a process as leader of its own session. posix_spawn costs a fraction of fork in a process of any size."""
    actions: List[Any] = []
    if terminal:  # opened by a session leader without a terminal, it becomes the controlling one
        actions.append((os.POSIX_SPAWN_OPEN, 0, terminal, os.O_RDWR, 0))
        actions += [(os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
    actions += [(os.POSIX_SPAWN_DUP2, source, target) for target, source in fds.items() if target >= 0]
    os.chdir(cwd)  # posix_spawn cannot; threads here use absolute paths only
    try:
        return os.posix_spawnp(
            argv[0],
            argv,
            environment,
            file_actions=actions,
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM),
        )
    finally:
        os.chdir("/")


def resize(master: int, size: Json) -> None:
    """Set a terminal's size; TIOCSWINSZ."""
    rows, columns = number(size, "rows", 24, 1, 10000), number(size, "columns", 80, 1, 10000)
    fcntl.ioctl(master, 0x5414, struct.pack("HHHH", rows, columns, 0, 0))
