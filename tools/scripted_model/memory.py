"""What the process keeps, all of it bounded: scripts given by API, counters of rare steps, the requests it saw."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from scripted_model.http_server import Request
from scripted_model.script import MatchedScript

Outcome = Literal["running", "complete", "error", "cut", "disconnected"]

MAX_SCRIPTS = 200
MAX_COUNTERS = 10_000
MAX_REQUESTS = 500


@dataclass
class Seen:
    """A request that came in: never its content, never a header's value."""

    number: int
    format: str
    path: str
    model: str
    stream: bool
    step: int
    sha256: str
    bytes: int
    header_names: Sequence[str]
    peer: str = ""
    """Address and port of the client: the same for requests over one connection."""
    prefix: Sequence[str] = ()
    status: int = 0
    outcome: Outcome = "running"


@dataclass
class Memory:
    """State that tests look at and may clear."""

    scripts: OrderedDict[str, MatchedScript] = field(default_factory=OrderedDict)
    counters: OrderedDict[str, int] = field(default_factory=OrderedDict)
    requests: deque[Seen] = field(default_factory=lambda: deque(maxlen=MAX_REQUESTS))
    kept: deque[Request] | None = None
    """Requests whole, for tests in one process with this model: None, as it must be elsewhere, keeps none."""
    total: int = 0

    def put(self, script: MatchedScript) -> None:
        """Add or replace a script; the oldest leaves when there are too many."""
        self.scripts[script.id] = script
        self.scripts.move_to_end(script.id)
        while len(self.scripts) > MAX_SCRIPTS:
            self.scripts.popitem(last=False)

    def played(self, key: str) -> int:
        """Return how often a step was played."""
        return self.counters.get(key, 0)

    def count(self, key: str) -> None:
        """Note that a step is being played."""
        self.counters[key] = self.counters.get(key, 0) + 1
        self.counters.move_to_end(key)
        while len(self.counters) > MAX_COUNTERS:
            self.counters.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self.scripts.clear()
        self.counters.clear()
        self.requests.clear()
        if self.kept is not None:
            self.kept.clear()
