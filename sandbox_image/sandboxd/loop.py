"""epoll, timers and the results of threads."""

from __future__ import annotations

import _thread
import heapq
import os
import select
import time
from collections import deque

from sandboxd.system import quietly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Deque, Dict, List, NoReturn, Optional, Tuple


class Loop:
    """epoll, timers, and results of threads; everything else runs in its callbacks."""

    def __init__(self) -> None:
        self.epoll = select.epoll()
        self.handlers: Dict[int, Callable[[int], None]] = {}
        self.timers: List[Tuple[float, int, Callable[[], None]]] = []
        self.count = 0
        self.results: Deque[Callable[[], None]] = deque()
        self.waiting: Deque[Tuple[Callable[[], Any], Callable[[Any, Optional[BaseException]], None]]] = deque()
        self.threads = 0
        self.awake, self.waker = os.pipe()
        os.set_blocking(self.awake, False)
        os.set_blocking(self.waker, False)
        self.on_wake: Callable[[], None] = lambda: None
        self.watch(self.awake, select.EPOLLIN, self.woken)

    def watch(self, fd: int, mask: int, handler: Callable[[int], None]) -> None:
        """Call the handler whenever the descriptor is ready."""
        self.epoll.register(fd, mask)
        self.handlers[fd] = handler

    def forget(self, fd: int) -> None:
        """Stop watching a descriptor that is about to be closed."""
        if self.handlers.pop(fd, None):
            self.epoll.unregister(fd)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call once, later; the callee checks whether it still matters."""
        self.count += 1
        heapq.heappush(self.timers, (time.monotonic() + seconds, self.count, call))

    def in_thread(self, work: Callable[[], Any], then: Callable[[Any, Optional[BaseException]], None]) -> None:
        """Run blocking work beside the loop, at most eight at once; `then` gets its result or its exception."""
        if self.threads >= 8:
            self.waiting.append((work, then))
            return
        self.threads += 1

        def body() -> None:
            value, error = None, None
            try:
                value = work()
            except Exception as caught:  # noqa: BLE001 it is handed to whoever asked
                error = caught
            self.results.append(lambda: then(value, error))
            quietly(os.write, self.waker, b"\0")

        _thread.start_new_thread(body, ())

    def woken(self, _mask: int) -> None:
        """A thread finished or a child died."""
        quietly(os.read, self.awake, 4096)
        self.on_wake()
        while self.results:
            self.threads -= 1
            self.results.popleft()()
            if self.waiting:
                self.in_thread(*self.waiting.popleft())

    def run(self) -> NoReturn:
        """Serve for ever."""
        while True:
            pause = -1.0
            while self.timers:
                pause = self.timers[0][0] - time.monotonic()
                if pause > 0:
                    break
                heapq.heappop(self.timers)[2]()
                pause = -1.0
            for fd, mask in self.epoll.poll(pause):
                handler = self.handlers.get(fd)
                if handler:
                    handler(mask)
