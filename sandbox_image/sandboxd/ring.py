"""What is kept of an output that nobody reads in time."""

from __future__ import annotations

from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Deque, Tuple


class Ring:
    """The last `capacity` bytes of an output, addressed by absolute offset; `total` counts all there ever were."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.parts: Deque[bytes] = deque()
        self.size = 0
        self.total = 0

    def append(self, data: bytes) -> None:
        """Take data in, forgetting the oldest."""
        self.total += len(data)
        data = data[-self.capacity :] if self.capacity else b""
        self.size += len(data)
        if self.parts and len(self.parts[-1]) < 4096:  # a flood of single bytes costs no more than its bytes
            data = self.parts.pop() + data
        self.parts.append(data)
        while self.size > self.capacity:
            excess = self.size - self.capacity
            first = self.parts.popleft()
            if len(first) > excess:
                self.parts.appendleft(first[excess:])
            self.size -= min(len(first), excess)

    def read(self, offset: int, limit: int) -> Tuple[int, bytes]:
        """Bytes from the absolute `offset` (negative: from the end), and the offset they really start at."""
        start = self.total - self.size
        offset = self.total + offset if offset < 0 else offset
        offset = min(max(offset, start), self.total)
        return offset, b"".join(self.parts)[offset - start :][:limit]
