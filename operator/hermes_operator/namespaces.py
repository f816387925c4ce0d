"""Facts of tenant namespaces: UID, and which Pod Security Standard they enforce. Asked again after a minute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hermes_operator.cluster.client import ClusterClient
from hermes_operator.cluster.errors import ClusterError
from hermes_operator.cluster.resources import NAMESPACES

_ENFORCE = "pod-security.kubernetes.io/enforce"
_FRESH_SECONDS = 60.0


@dataclass(frozen=True)
class NamespaceFacts:
    """What decisions need of a namespace."""

    uid: str
    restricted: bool
    """It refuses pods that do not meet the `restricted` standard."""


class Namespaces:
    """A small cache."""

    def __init__(self, client: ClusterClient, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[str, tuple[float, NamespaceFacts]] = {}

    async def get(self, name: str) -> NamespaceFacts:
        """Return a namespace's facts. Raises ClusterError; 404 when it is gone."""
        known = self._known.get(name)
        if known is not None and self._clock() - known[0] < _FRESH_SECONDS:
            return known[1]
        body = await self._client.get(NAMESPACES, "", name)
        if body is None:
            raise ClusterError(404, "NotFound", f"namespace {name} does not exist")
        labels = body["metadata"].get("labels") or {}
        facts = NamespaceFacts(body["metadata"]["uid"], labels.get(_ENFORCE) == "restricted")
        self._known[name] = (self._clock(), facts)
        return facts

    def uid(self, name: str) -> str | None:
        """Return a UID that was read before, without asking."""
        known = self._known.get(name)
        return known[1].uid if known is not None else None
