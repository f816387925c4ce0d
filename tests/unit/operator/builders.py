"""Observed states in few words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hermes_contracts.conversation import Usage
from hermes_contracts.crd.base import ObjectRef
from hermes_contracts.crd.profile import ModelSettings, ProfileSpec
from hermes_contracts.crd.session import SessionSpec, SessionStatus
from hermes_contracts.names import RoutingKey
from hermes_contracts.store_api import SessionSummary
from hermes_operator.build.pod import AGENT, SANDBOX
from hermes_operator.cluster.views import ContainerView, PodView, ProfileView, SessionView
from hermes_operator.reconcile.model import Memory, Observed, ProfileVerdict

NOW = 1_800_000_000.0
SID = "s" + "a" * 25
SPEC = ProfileSpec(model=ModelSettings(provider="scripted", name="scripted"))
READY = ProfileVerdict(SPEC, True, "Ready", "")


def session(*, status: SessionStatus | None = None, **spec: Any) -> SessionView:
    return SessionView(
        namespace="team",
        name="chat",
        uid="uid-1",
        resource_version="1",
        generation=1,
        created_at=NOW - 5000,
        deleting=False,
        made_by_operator=True,
        spec=SessionSpec(profile_ref=ObjectRef(name="demo"), key=RoutingKey(channel="api", chat="1"), owner="ann", **spec),
        status=status if status is not None else SessionStatus(epoch=1, state="Asleep"),
    )


def pod(epoch: int = 1, *, age: float = 10, **fields: Any) -> PodView:
    running = {AGENT: ContainerView(started=True), SANDBOX: ContainerView(started=True)}
    blank = PodView(
        namespace="team",
        name=f"chat-{epoch}",
        uid=f"pod-{epoch}",
        resource_version="1",
        sid=SID,
        epoch=epoch,
        created_at=NOW - age,
        deleting=False,
        phase="Running",
        reason="",
        message="",
        scheduled=True,
        schedule_message="",
        template="t",
        containers=running,
    )
    return replace(blank, **fields)


def summary(epoch: int = 1, *, idle: float = 1, running: int = 0, **fields: Any) -> SessionSummary:
    blank = SessionSummary(
        sid=SID,
        epoch=epoch,
        last_activity=NOW - idle,
        turns=3,
        running_turns=running,
        open_commands=0,
        usage=Usage(),
        failed_deliveries=0,
    )
    return blank.model_copy(update=fields)


def observed(**fields: Any) -> Observed:
    blank = Observed(
        session=session(),
        sid=SID,
        profile=READY,
        pods=(),
        pending=0,
        summary=summary(),
        memory=Memory(),
        template="t",
    )
    return replace(blank, **fields)


def profile(**fields: Any) -> ProfileView:
    blank = ProfileView(
        namespace="team",
        name="demo",
        uid="uid-p",
        resource_version="1",
        generation=2,
        created_at=NOW - 100,
        deleting=False,
        spec=SPEC,
        status=_no_status(),
    )
    return replace(blank, **fields)


def _no_status() -> Any:
    from hermes_contracts.crd.profile import ProfileStatus

    return ProfileStatus()
