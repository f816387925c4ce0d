"""No regular expression of ours may be kept busy by what it reads: models, people and providers write that."""

from __future__ import annotations

import importlib
import pkgutil
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

PACKAGES = ("hermes_agent", "hermes_contracts", "hermes_gateway", "hermes_schedule", "hermes_service", "hermes_operator")
LOOKED_AT_ELSEWHERE = "hermes_agent.approvals.patterns"
STARTS = ("", "---\r\n", "a", "key=")
PUMPS = (
    "a", "a ", "0", "0 ", "1.", "-", " ", "\n", "a\n", "\r\n", "a\r\n", "<", "`", "[", "](", "(", "*", "_", "a/", "a=", "a.",
    "a,", '"', "\x1b[", "\x1b]", "http://a", "&a=", "@", "sk-", ";a",
)  # fmt: skip
LENGTH = 16_000
SHORT_INPUTS = {
    "hermes_agent.model.think._MAYBE": "sees 24 characters at most",
    "hermes_agent.approvals.normalise._ASSIGNMENT": "is matched at the first character only",
}


def _modules() -> Iterator[Any]:
    for name in PACKAGES:
        package = importlib.import_module(name)
        yield package
        for info in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not info.name.endswith("__main__") and ".testing" not in info.name and info.name != LOOKED_AT_ELSEWHERE:
                yield importlib.import_module(info.name)


def _found(value: Any, depth: int = 3) -> Iterator[re.Pattern[Any]]:
    """Return the patterns in a value: itself, in its items, in its attributes."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, list | tuple | frozenset):
        for item in value:
            yield from _found(item, depth - 1)
    elif depth and isinstance(value, dict):
        yield from _found(tuple(value.values()), depth - 1)
    elif depth and type(value).__module__.startswith("hermes_") and hasattr(value, "__dict__"):
        yield from _found(tuple(vars(value).values()), depth - 1)


def _patterns() -> dict[str, re.Pattern[Any]]:
    found: dict[tuple[Any, int], tuple[str, re.Pattern[Any]]] = {}
    for module in _modules():
        for name, value in vars(module).items():
            made = value() if hasattr(value, "cache_info") and not value.__wrapped__.__code__.co_argcount else value
            for place, pattern in enumerate(_found(made)):
                found.setdefault((pattern.pattern, pattern.flags), (f"{module.__name__}.{name}:{place}", pattern))
    return dict(found.values())


PATTERNS = _patterns()


def test_the_patterns_were_found() -> None:
    assert len(PATTERNS) > 100


@pytest.mark.parametrize("name", [name for name in PATTERNS if name.partition(":")[0] not in SHORT_INPUTS])
def test_no_text_keeps_it_busy(name: str) -> None:
    pattern = PATTERNS[name]
    for start in STARTS:
        for pump in PUMPS:
            text: Any = f"{start}{pump * (LENGTH // len(pump))}\0"
            if isinstance(pattern.pattern, bytes):
                text = text.encode()
            before = time.process_time()
            pattern.search(text)
            assert time.process_time() - before < 0.8, (start, pump)
