"""What the operator does about a session, state by state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hermes_contracts.conversation import Usage
from hermes_contracts.crd.profile import Approvals, Sandbox, Workspace
from hermes_contracts.crd.session import SessionStatus
from hermes_contracts.store_api import AgentState
from hermes_operator.build.pod import AGENT, SANDBOX
from hermes_operator.cluster.views import ContainerView
from hermes_operator.reconcile.conditions import turned_bad
from hermes_operator.reconcile.model import (
    AgentWord,
    Bury,
    Drain,
    DrainOrder,
    Forget,
    Hold,
    Limits,
    Memory,
    Observed,
    ProfileVerdict,
    Purge,
    Renew,
    Resubscribe,
    Start,
    StartFailure,
    Stop,
    Unknown,
)
from hermes_operator.reconcile.session import crash_delay, decide
from hermes_operator.reconcile.status import worth_writing
from tests.unit.operator.builders import NOW, READY, SPEC, observed, pod, session, summary


def said(state: str, *, ago: float = 0, epoch: int = 1, drain: DrainOrder | None = None) -> Memory:
    return Memory(word=AgentWord(epoch, AgentState(state), NOW - ago), renewed_at=NOW - 5, drain=drain)


def containers(**agent: Any) -> dict[str, ContainerView]:
    return {AGENT: ContainerView(**agent), SANDBOX: ContainerView(started=True)}


AWAKE = Memory(word=AgentWord(1, AgentState.IDLE, NOW - 5), renewed_at=NOW - 5)
UP = SessionStatus(epoch=1, state="Ready", pod="chat-1")
GOING = replace(session(deletion_policy="Purge"), deleting=True, finalized=True)
STATES: dict[str, tuple[Observed, tuple[object, ...], str | None]] = {
    "a message waits and nothing works": (observed(pending=1), (Start(1),), None),
    "a message waits for a session the store has never seen": (observed(pending=1, summary=None), (Start(0),), None),
    "nothing waits": (observed(), (), "Asleep"),
    "a command waits for an agent": (observed(commanded=True), (Start(1),), None),
    "a command waits for a session that is suspended": (
        observed(session=session(suspend=True), commanded=True), (), "Suspended",
    ),
    "a person made it a moment ago": (
        observed(session=session(status=SessionStatus()), summary=None), (Start(0),), None,
    ),
    "suspended, with a message waiting": (observed(session=session(suspend=True), pending=3), (), "Suspended"),
    "suspended, with a pod that works": (
        observed(session=session(suspend=True, status=UP), pods=(pod(),), memory=AWAKE), (Drain(1, 20.0),), "Draining",
    ),
    "suspended before the agent spoke": (
        observed(session=session(suspend=True), pods=(pod(),)), (Stop(1, "chat-1", "pod-1"),), None,
    ),
    "the pod starts": (observed(pods=(pod(),), pending=1), (), "Starting"),
    "the pod works and is not idle yet": (observed(pods=(pod(),), memory=AWAKE), (), "Ready"),
    "the bus moved to an address that the pod does not know": (
        observed(
            pods=(pod(host_aliases=frozenset({"10.0.0.1", "10.0.0.2"})),),
            memory=AWAKE,
            services=(frozenset({"10.0.0.9"}), frozenset({"10.0.0.2"})),
        ),
        (Stop(1, "chat-1", "pod-1"),),
        None,
    ),
    "one of the bus's addresses is still known": (
        observed(
            pods=(pod(host_aliases=frozenset({"10.0.0.1", "10.0.0.2"})),),
            memory=AWAKE,
            services=(frozenset({"10.0.0.9", "10.0.0.1"}), frozenset({"10.0.0.2"})),
        ),
        (),
        "Ready",
    ),
    "the pod works on something": (
        observed(pods=(pod(),), pending=1, memory=said("busy")), (), "Busy",
    ),
    "idle for long enough": (
        observed(pods=(pod(age=5000),), summary=summary(idle=901), memory=said("idle", ago=901)),
        (Drain(1, 20.0),), "Draining",
    ),
    "idle for long enough, but a message waits": (
        observed(pods=(pod(age=5000),), pending=1, summary=summary(idle=5000), memory=said("idle", ago=5000)),
        (), "Ready",
    ),
    "idle, and messages do not reach it": (
        observed(pods=(pod(age=50),), pending=1, memory=replace(said("idle", ago=30), waiting_since=NOW - 11)),
        (Resubscribe(1),), "Ready",
    ),
    "idle, and a message came a moment ago": (
        observed(pods=(pod(age=50),), pending=1, memory=replace(said("idle", ago=30), waiting_since=NOW - 1)),
        (), "Ready",
    ),
    "idle since a moment, and the next message waits": (
        observed(pods=(pod(age=50),), pending=1, memory=replace(said("idle", ago=1), waiting_since=NOW - 60)),
        (), "Ready",
    ),
    "at work for long, and others wait": (
        observed(pods=(pod(age=90),), pending=2, memory=replace(said("busy", ago=60), waiting_since=NOW - 60)),
        (), "Busy",
    ),
    "idle by its own shorter limit": (
        observed(
            session=session(idle_timeout_seconds=5),
            pods=(pod(age=50),),
            summary=summary(idle=20),
            memory=said("idle", ago=20),
        ),
        (Drain(1, 20.0),), "Draining",
    ),
    "told to drain": (
        observed(pods=(pod(),), memory=replace(AWAKE, drain=DrainOrder(1, NOW + 5))), (), "Draining",
    ),
    "drained": (
        observed(pods=(pod(),), memory=said("drained", drain=DrainOrder(1, NOW + 5))),
        (Stop(1, "chat-1", "pod-1"),), None,
    ),
    "did not drain in time": (
        observed(pods=(pod(),), memory=replace(AWAKE, drain=DrainOrder(1, NOW))), (Stop(1, "chat-1", "pod-1"),), None,
    ),
    "drained, ending, and a message came meanwhile": (
        observed(pods=(pod(deleting=True),), pending=1, memory=said("drained")),
        (Start(1),), None,
    ),
    "evicted": (
        observed(pods=(pod(phase="Failed", reason="Evicted"),), pending=1),
        (Stop(1, "chat-1", "pod-1", crashed="Evicted"),), None,
    ),
    "backs off for long": (
        observed(pods=(pod(containers=containers(restarts=2, waiting_reason="CrashLoopBackOff")),), memory=AWAKE),
        (Stop(1, "chat-1", "pod-1", crashed="CrashLoopBackOff"),), None,
    ),
    "fenced by a higher epoch": (
        observed(pods=(pod(1),), summary=summary(2), memory=AWAKE), (Stop(1, "chat-1", "pod-1"),), None,
    ),
    "two pods": (
        observed(pods=(pod(1), pod(2)), summary=summary(2), memory=said("idle", epoch=2)),
        (Stop(1, "chat-1", "pod-1"),), "Ready",
    ),
    "silent for five minutes": (
        observed(pods=(pod(age=301),)), (Stop(1, "chat-1", "pod-1", crashed="AgentSilent"),), None,
    ),
    "made from an old template and not up yet": (
        observed(pods=(pod(template="old"),)), (Stop(1, "chat-1", "pod-1"),), None,
    ),
    "made from an old template and working": (observed(pods=(pod(template="old"),), memory=AWAKE), (), "Ready"),
    "its pod went without us": (
        observed(session=session(status=UP)), (Stop(1, "", ""),), "Asleep",
    ),
    "credentials grow old": (
        observed(pods=(pod(age=5000),), memory=replace(AWAKE, renewed_at=NOW - 1201)),
        (Renew(1, "chat-1", update_secret=True),), "Ready",
    ),
    "another operator started it": (
        observed(session=session(status=UP), pods=(pod(),)), (Renew(1, "chat-1", update_secret=False),), "Ready",
    ),
    "the Profile is gone": (observed(pending=1, profile=None), (), "Failed"),
    "the Profile is bad": (
        observed(pending=1, profile=ProfileVerdict(SPEC, False, "SecretNotFound", "there is none")), (), "Failed",
    ),
    "the quota refused the last start": (
        observed(pending=1, memory=Memory(failure=StartFailure("PodReady", "QuotaExceeded", "full", 1, NOW + 9))),
        (), "Failed",
    ),
    "the quota refused, and the pause is over": (
        observed(pending=1, memory=Memory(failure=StartFailure("PodReady", "QuotaExceeded", "full", 1, NOW))),
        (Start(1),), None,
    ),
    "a start without messages was refused": (observed(memory=Memory(wants_start=True)), (Start(1),), None),
    "another operator began a start and its pod is gone": (
        observed(session=session(status=SessionStatus(epoch=1, state="Starting"))), (Start(1),), None,
    ),
    "it is to leave nothing behind": (
        observed(session=session(deletion_policy="Purge")), (Hold(True),), None,
    ),
    "it is to leave its conversation after all": (
        observed(session=replace(session(), finalized=True)), (Hold(False),), None,
    ),
    "deleted": (observed(session=replace(session(), deleting=True)), (Stop(1, "", ""),), None),
    "deleted, to be purged, with a pod that works": (
        observed(session=GOING, pods=(pod(),)), (Stop(1, "chat-1", "pod-1"),), None,
    ),
    "deleted, to be purged, with a pod that ends": (observed(session=GOING, pods=(pod(deleting=True),)), (), None),
    "deleted, to be purged": (observed(session=GOING), (Stop(1, "", ""), Purge(), Hold(False)), None),
    "a message waits in vain for a Profile": (
        observed(pending=1, profile=None, oldest_pending=NOW - 601), (Bury(NOW - 600, "profile_gone"),), "Failed",
    ),
    "a message waits for a Profile that may come": (
        observed(pending=1, profile=None, oldest_pending=NOW - 599), (), "Failed",
    ),
    "a message waits in vain for a session that cannot be started": (
        observed(
            pending=1,
            memory=Memory(failure=StartFailure("PodReady", "QuotaExceeded", "full", 9, NOW + 60)),
            oldest_pending=NOW - 604_801,
        ),
        (Bury(NOW - 604_800, "not_started"),), "Failed",
    ),
    "a message waits in vain for a Profile to be mended": (
        observed(
            pending=1, profile=ProfileVerdict(SPEC, False, "SecretNotFound", "there is none"), oldest_pending=NOW - 604_801
        ),
        (Bury(NOW - 604_800, "not_started"),), "Failed",
    ),
    "a message waits for a session that will be started": (
        observed(
            pending=1,
            memory=Memory(failure=StartFailure("PodReady", "QuotaExceeded", "full", 9, NOW + 60)),
            oldest_pending=NOW - 600_000,
        ),
        (), "Failed",
    ),
    "a message waits in vain for a suspended session": (
        observed(session=session(suspend=True), pending=1, oldest_pending=NOW - 604_801),
        (Bury(NOW - 604_800, "suspended"),), "Suspended",
    ),
    "crashed three times": (observed(pending=1, memory=Memory(crashes=3, crashed_at=NOW - 1)), (), "Failed"),
}  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_each_state_has_its_plan(name: str) -> None:
    state, actions, said = STATES[name]
    plan = decide(state, NOW)
    assert plan.actions == actions
    assert (plan.status.state if plan.status else None) == said


@pytest.mark.parametrize("name", STATES)
def test_nothing_is_written_again_when_nothing_changed(name: str) -> None:
    state, _, said = STATES[name]
    if said is None:
        return
    plan = decide(state, NOW)
    assert plan.status is not None
    assert isinstance(state.pods, tuple)
    stopped = {action.pod_uid for action in plan.actions if isinstance(action, Stop)}
    left = tuple(p for p in state.pods if p.uid not in stopped)
    settled = replace(state, session=replace(state.session, status=plan.status), pods=left)
    again = decide(settled, NOW + 1)
    assert again.status is not None
    assert not worth_writing(plan.status, again.status, NOW, NOW + 1)
    assert not [a for a in again.actions if isinstance(a, Start | Stop)]


AWAKE_STATES = [name for name, (_, _, said) in STATES.items() if said in ("Ready", "Busy", "Draining", "Starting")]


@pytest.mark.parametrize("field", ["summary", "profile"])
@pytest.mark.parametrize("name", AWAKE_STATES)
def test_what_is_not_known_yet_changes_nothing_that_was_said(name: str, field: str) -> None:
    """As after a change of operators: a restart writes nothing."""
    state = STATES[name][0]
    plan = decide(state, NOW)
    assert plan.status is not None
    settled = replace(state, session=replace(state.session, status=plan.status))
    again = decide(replace(settled, **{field: Unknown("nobody has looked yet")}), NOW + 1)
    if again.status is not None and again.status.state == plan.status.state:
        assert not worth_writing(plan.status, again.status, NOW, NOW + 1)


@pytest.mark.parametrize("field", ["pods", "pending", "summary", "profile"])
@pytest.mark.parametrize("name", STATES)
def test_what_is_unknown_ends_nothing(name: str, field: str) -> None:
    state = replace(STATES[name][0], **{field: Unknown("the API server does not answer")})
    plan = decide(state, NOW)
    if state.session.deleting:
        # A person has ended it; what may not be purged is what a pod that nobody saw could still write to.
        assert field != "pods" or not [a for a in plan.actions if isinstance(a, Purge)]
        return
    known_reasons = {"fenced by a higher epoch", "two pods", "evicted", "backs off for long", "silent for five minutes",
                     "did not drain in time", "drained", "suspended before the agent spoke",
                     "made from an old template and not up yet", "its pod went without us",
                     "the bus moved to an address that the pod does not know"}  # fmt: skip
    if field == "pods" or name not in known_reasons:
        assert not [a for a in plan.actions if isinstance(a, Stop | Forget)]
    if field == "pods":
        assert [a for a in plan.actions if not isinstance(a, Hold)] == []
    if field in ("pending", "summary") and "idle" in name:
        assert not [a for a in plan.actions if isinstance(a, Drain)]


def test_what_a_session_costs_and_what_was_given_up_is_said() -> None:
    known = summary(usage=Usage(cost_nano_usd=2_500_000_000), failed_deliveries=1)
    plan = decide(observed(pods=(pod(),), memory=AWAKE, summary=known, dead_letters=2), NOW)
    assert plan.status is not None
    assert plan.status.cost_usd == "2.50"
    found = {c.type: (c.status, c.message) for c in plan.status.conditions}
    assert found["DeadLetter"] == ("True", "2 messages were given up and wait among the dead letters")
    turned = turned_bad((), plan.status.conditions)
    assert {c.type for c in turned} >= {"DeadLetter", "DeliveryFailed"}
    assert not [c for c in turned_bad(plan.status.conditions, plan.status.conditions) if c.type == "DeadLetter"]


def test_why_the_pod_before_was_replaced_stays_readable() -> None:
    memory = Memory(crashes=1, crashed_at=NOW - 1, crash="AgentSilent: it said nothing")
    plan = decide(observed(pods=(pod(2),), memory=memory, pending=1), NOW)
    assert plan.status is not None
    [ready] = [c for c in plan.status.conditions if c.type == "Ready"]
    assert (ready.reason, ready.message) == ("Starting", "the pod before ended: AgentSilent: it said nothing")


def test_a_store_that_does_not_answer_starts_nothing_and_says_so() -> None:
    plan = decide(observed(pending=1, summary=Unknown("the store does not answer")), NOW)
    assert plan.actions == ()
    assert plan.status is not None
    [ready] = [c for c in plan.status.conditions if c.type == "Ready"]
    assert (ready.status, ready.reason) == ("False", "StoreUnavailable")


def test_a_volume_is_never_shared_by_two_pods() -> None:
    spec = SPEC.model_validate(
        {"model": {"provider": "scripted", "name": "s"}, "sandbox": {"workspace": {"kind": "PersistentVolumeClaim"}}}
    )
    disk = ProfileVerdict(spec, True, "Ready", "")
    waiting = decide(observed(pending=1, profile=disk, pods=(pod(deleting=True),)), NOW)
    assert waiting.actions == ()
    assert decide(observed(pending=1, profile=disk), NOW).actions == (Start(1),)


ARCHIVE = ProfileVerdict(
    SPEC.model_copy(update={"sandbox": Sandbox(workspace=Workspace(kind="Archive"))}), True, "Ready", ""
)


def test_an_agent_that_was_deleted_saves_its_files_before_the_next_one_starts() -> None:
    going = pod(deleting=True, gone_by=NOW + 60)
    waiting = observed(pending=1, profile=ARCHIVE, pods=(going,))
    assert decide(waiting, NOW).actions == ()
    assert decide(replace(waiting, profile=READY), NOW).actions == (Start(1),), "nothing of an Ephemeral one is saved"
    assert decide(waiting, NOW + 61).actions == (Start(1),), "a node that is lost ends nothing"
    ended = replace(going, containers={AGENT: ContainerView(exit_code=0)})
    assert decide(replace(waiting, pods=(ended,)), NOW).actions == (Start(1),)
    assert decide(replace(waiting, memory=said("drained")), NOW).actions == (Start(1),), "it has saved them already"


def test_an_agent_that_saves_its_files_has_more_time_to_drain() -> None:
    idle = observed(pods=(pod(age=5000),), profile=ARCHIVE, summary=summary(idle=901), memory=said("idle", ago=901))
    assert decide(idle, NOW).actions == (Drain(1, 20.0, 60.0),)


def test_only_sessions_that_a_message_brings_back_are_forgotten() -> None:
    asleep = decide(observed(), NOW - 200)
    assert asleep.status is not None
    old = replace(observed(), session=session(status=asleep.status), limits=Limits(asleep_ttl=100))
    assert decide(old, NOW).actions == (Forget(),)
    by_hand = replace(old, session=replace(old.session, made_by_operator=False))
    assert decide(by_hand, NOW).actions == ()
    assert decide(replace(old, profile=READY, pending=Unknown("?")), NOW).actions == ()
    assert decide(replace(old, limits=Limits()), NOW).actions == ()


def test_a_problem_of_the_pod_is_named_and_goes_away() -> None:
    pulling = containers(waiting_reason="ImagePullBackOff", waiting_message="no such image")
    plan = decide(observed(pods=(pod(containers=pulling, phase="Pending"),)), NOW)
    assert plan.status is not None
    found = {c.type: c for c in plan.status.conditions}
    assert found["PodReady"].reason == "ImagePullBackOff"
    assert "no such image" in found["Ready"].message
    healed = decide(observed(pods=(pod(),), memory=AWAKE), NOW)
    assert healed.status is not None
    assert {c.type: c.status for c in healed.status.conditions}["Ready"] == "True"


def test_a_session_with_a_pod_says_that_commands_run_unasked() -> None:
    found = {}
    for mode in ("Isolated", "Manual"):
        spec = SPEC.model_copy(update={"approvals": Approvals.model_validate({"mode": mode})})
        plan = decide(observed(pods=(pod(),), memory=AWAKE, profile=ProfileVerdict(spec, True, "Ready", "")), NOW)
        assert plan.status is not None
        found[mode] = {c.type: c.reason for c in plan.status.conditions}.get("CommandsUnasked")
    assert found == {"Isolated": "Isolated", "Manual": None}


def test_crashes_in_a_row_wait_longer_each_time() -> None:
    assert [crash_delay(n) for n in range(1, 6)] == [0, 5, 10, 20, 40]
    assert crash_delay(50) == 300
