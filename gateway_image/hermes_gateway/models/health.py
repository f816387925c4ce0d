"""Which models and keys failed lately, in this process: they are passed over while something else can serve."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.models.providers.errors import ProviderError, Reason

Clock = Callable[[], float]

_LIMIT = 10_000
_FIRST_SECONDS, _LONGEST_SECONDS = 60.0, 300.0
_LONGEST_NAMED_SECONDS = 3600.0
_HOUR = 3600.0
_SOLE_SECONDS = 60.0
_KEY_SECONDS = {Reason.AUTH: 300.0, Reason.AUTH_PERMANENT: 24 * _HOUR, Reason.BILLING: _HOUR, Reason.RATE_LIMIT: _HOUR}
_ABOUT_THE_REQUEST = frozenset(
    {
        ErrorCode.CONTENT_REFUSED, ErrorCode.CONTEXT_OVERFLOW, ErrorCode.PAYLOAD_TOO_LARGE, ErrorCode.IMAGE_REFUSED,
        ErrorCode.INVALID,
    }
)  # fmt: skip
"""Failures that say nothing about the next conversation."""


@dataclass
class _Model:
    until: float
    failures: int


class ModelHealth:
    """Models that cool down: 60 s after a failure, doubling to 300 s, forgotten at the first success."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._models: OrderedDict[tuple[str, ...], _Model] = OrderedDict()

    def cooling(self, model: tuple[str, ...]) -> bool:
        """Tell whether a model is better passed over."""
        found = self._models.get(model)
        return found is not None and found.until > self._clock()

    def failed(self, model: tuple[str, ...], error: HermesError, at_least: float = 0.0) -> bool:
        """Note that a call gave a model up. Returns whether it cools, which is for `at_least` so many seconds."""
        if error.code in _ABOUT_THE_REQUEST:
            return False
        found = self._models.pop(model, None) or _Model(0.0, 0)
        seconds = min(_FIRST_SECONDS * 2.0**found.failures, _LONGEST_SECONDS)
        named = min(error.retry_after_seconds or 0.0, _LONGEST_NAMED_SECONDS)
        self._models[model] = _Model(self._clock() + max(seconds, named, at_least), min(found.failures + 1, 10))
        while len(self._models) > _LIMIT:
            self._models.popitem(last=False)
        return True

    def succeeded(self, model: tuple[str, ...]) -> None:
        """Forget a model's failures."""
        self._models.pop(model, None)


@dataclass
class _Key:
    until: float = 0.0
    in_use: int = 0
    used: int = 0


class KeyPool:
    """The keys of provider Secrets: the one in least use serves, unless it cools and another does not."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._keys: OrderedDict[str, _Key] = OrderedDict()

    def pick(self, owner: str, keys: Sequence[str], tried: Collection[str]) -> str:
        """Return the key to use; keys that were `tried` come last. `owner` is namespace and Secret."""
        now = self._clock()

        def order(key: str) -> tuple[bool, float, int, int]:
            state = self._state(owner, key)
            return (key in tried, state.until if state.until > now else 0.0, state.in_use, state.used)

        return min(keys, key=order)

    def spare(self, owner: str, keys: Sequence[str], tried: Collection[str]) -> bool:
        """Tell whether there is a key that was not tried and does not cool."""
        now = self._clock()
        return any(key not in tried and self._state(owner, key).until <= now for key in keys)

    def soonest(self, owner: str, keys: Sequence[str]) -> float:
        """Return the seconds until the first of the keys does not cool any more."""
        now = self._clock()
        return max(min((self._state(owner, key).until - now for key in keys), default=0.0), 0.0)

    def taken(self, owner: str, key: str) -> None:
        """Note that a call begins to use a key."""
        state = self._state(owner, key)
        state.in_use += 1
        state.used += 1

    def released(self, owner: str, key: str) -> None:
        """Note that a call has ended."""
        state = self._state(owner, key)
        state.in_use = max(state.in_use - 1, 0)

    def failed(self, owner: str, key: str, error: HermesError, *, sole: bool) -> bool:
        """Note a failure. Returns whether the key cools: a minute if it is the `sole` one and may come back by itself."""
        if not isinstance(error, ProviderError) or error.reason not in _KEY_SECONDS:
            return False
        seconds = _KEY_SECONDS[error.reason]
        if error.reason is Reason.RATE_LIMIT:
            if error.retry_after_seconds is not None:
                seconds = min(error.retry_after_seconds, _LONGEST_NAMED_SECONDS)
            elif sole:
                seconds = _SOLE_SECONDS
        self._state(owner, key).until = self._clock() + seconds
        return True

    def succeeded(self, owner: str, key: str) -> None:
        """Forget a key's failure."""
        self._state(owner, key).until = 0.0

    def _state(self, owner: str, key: str) -> _Key:
        # Hashed: what is kept longer than a call holds no key.
        name = hashlib.sha256(f"{owner}\n{key}".encode()).hexdigest()
        found = self._keys.get(name)
        if found is None:
            found = self._keys[name] = _Key()
            while len(self._keys) > _LIMIT:
                self._keys.popitem(last=False)
        self._keys.move_to_end(name)
        return found
