"""The object and the message of a scheduled run. Pure."""

from __future__ import annotations

from hermes_contracts.crd.base import ObjectRef
from hermes_contracts.crd.cron_job import DeliverTarget
from hermes_contracts.crd.session import SessionSpec
from hermes_contracts.envelopes import CronRun, EarlierAnswer, Inbound, Route, Target
from hermes_contracts.names import (
    API_VERSION,
    CRON_CHANNEL,
    HOME_CHANNEL,
    LABEL_CRON,
    RoutingKey,
    conversation_id,
    cron_owner,
    cron_session_name,
    session_id,
)
from hermes_operator.build.meta import session_labels
from hermes_operator.cluster.views import CronJobView, Manifest
from hermes_operator.reconcile.cron_model import Slot

IDLE_SECONDS = 10
"""A run's pod has nothing to wait for once its turn is over."""


def run_key(view: CronJobView, run: str) -> RoutingKey:
    """Return the routing key of a run's own session."""
    return RoutingKey(channel=CRON_CHANNEL, account=view.uid, chat=run)


def run_route(view: CronJobView, run: str, namespace_uid: str) -> Route:
    """Return what the store keeps of a run's own session."""
    profile, key = view.spec.profile_ref.name, run_key(view, run)
    return Route(
        sid=session_id(namespace_uid, profile, key),
        namespace=view.namespace,
        profile=profile,
        owner=cron_owner(view.namespace, view.name),
        key=key,
    )


def build_run_session(view: CronJobView, run: str, sid: str) -> Manifest:
    """Return the session of a run; it goes when the job does."""
    spec = SessionSpec(
        profile_ref=ObjectRef(name=view.spec.profile_ref.name),
        key=run_key(view, run),
        owner=cron_owner(view.namespace, view.name),
        idle_timeout_seconds=IDLE_SECONDS,
    )
    owner = {"apiVersion": API_VERSION, "kind": "HermesCronJob", "name": view.name, "uid": view.uid, "controller": True}
    return {
        "apiVersion": API_VERSION,
        "kind": "HermesSession",
        "metadata": {
            "name": cron_session_name(view.name, view.uid, run),
            "namespace": view.namespace,
            "labels": {**session_labels(sid, view.spec.profile_ref.name), LABEL_CRON: view.uid},
            "ownerReferences": [owner],
        },
        "spec": spec.model_dump(mode="json", by_alias=True, include={"profile_ref", "key", "owner", "idle_timeout_seconds"}),
    }


def build_run_message(
    view: CronJobView, slot: Slot, route: Route, context: tuple[EarlierAnswer, ...], now: float
) -> Inbound:
    """Return the message that is the run. Its account and update id make it one turn, however often it is sent."""
    spec = view.spec
    return Inbound(
        sid=route.sid,
        conversation=conversation_id(route.sid),
        channel=CRON_CHANNEL,
        account=view.uid,
        update_id=slot.run,
        owner=route.owner,
        text=spec.prompt,
        received_at=now,
        run=CronRun(
            job=view.name,
            run=slot.run,
            channel=route.key.channel,
            toolsets=spec.toolsets,
            skills=spec.skills,
            script=spec.script,
            no_agent=spec.no_agent,
            context=context,
            deliver=tuple(_target(target, view.name) for target in spec.deliver),
        ),
    )


def _target(target: DeliverTarget, job: str) -> Target:
    chat = target.chat or ("" if target.channel == HOME_CHANNEL else job)
    return Target(channel=target.channel, account=target.account, chat=chat, thread=target.thread)
