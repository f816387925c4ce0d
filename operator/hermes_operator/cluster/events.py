"""Named Events, so that `kubectl describe` tells the story; the same one is not repeated within ten minutes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

import structlog

from hermes_contracts.names import API_VERSION
from hermes_operator.build.meta import OPERATOR
from hermes_operator.cluster.client import ClusterClient
from hermes_operator.cluster.errors import ClusterError
from hermes_operator.cluster.resources import EVENTS
from hermes_operator.cluster.views import CronJobView, ProfileView, SessionView

log = structlog.get_logger()

_QUIET_SECONDS = 600.0
_MAX_REMEMBERED = 10_000
_KINDS: dict[type, str] = {ProfileView: "Profile", SessionView: "HermesSession", CronJobView: "HermesCronJob"}


class EventRecorder:
    """Posts Events about our objects. A failure to post is logged and otherwise ignored."""

    def __init__(self, client: ClusterClient, instance: str, clock: Callable[[], float]) -> None:
        self._client = client
        self._instance = instance
        self._clock = clock
        self._posted: dict[tuple[str, str, str], float] = {}

    async def post(
        self,
        about: SessionView | ProfileView | CronJobView,
        kind: Literal["Normal", "Warning"],
        reason: str,
        note: str,
        *,
        action: str = "Reconcile",
    ) -> None:
        """Post an Event about an object."""
        now = self._clock()
        identity = (about.uid, reason, note)
        if now - self._posted.get(identity, float("-inf")) < _QUIET_SECONDS:
            return
        if len(self._posted) >= _MAX_REMEMBERED:
            self._posted.clear()
        self._posted[identity] = now
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        digest = hashlib.sha256("\0".join((*identity, stamp)).encode()).hexdigest()[:16]
        manifest = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{about.name}.{digest}", "namespace": about.namespace},
            "eventTime": stamp,
            "reportingController": f"hermes.run/{OPERATOR}",
            "reportingInstance": self._instance[:128],
            "action": action,
            "reason": reason[:128],
            "type": kind,
            "note": note[:1000],
            "regarding": {
                "apiVersion": API_VERSION,
                "kind": _KINDS[type(about)],
                "name": about.name,
                "namespace": about.namespace,
                "uid": about.uid,
            },
        }
        try:
            await self._client.create(EVENTS, manifest)
        except ClusterError as error:
            log.warning("event.not_posted", reason=reason, error=error.message[:200])
