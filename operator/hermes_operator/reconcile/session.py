"""What to do about a session: `decide` is a function of what was observed and of the time, and of nothing else.

A wake is only a reason to run it. It starts a pod where messages wait and none works, stops one that is idle, broken or
fenced, and otherwise does nothing: run again on what it made, it plans nothing.
"""

from __future__ import annotations

from hermes_contracts.store_api import AgentState, SessionSummary
from hermes_operator.build.pod import AGENT
from hermes_operator.build.quantity import saving_seconds
from hermes_operator.cluster.views import PodView, timestamp
from hermes_operator.reconcile.admission import YIELD_SECONDS, Why
from hermes_operator.reconcile.model import (
    Action,
    Bury,
    Drain,
    Forget,
    Hold,
    Observed,
    Plan,
    ProfileVerdict,
    Purge,
    Renew,
    Resubscribe,
    Start,
    Stop,
    Unknown,
)
from hermes_operator.reconcile.pods import Diagnosis, Health, Problem, diagnose
from hermes_operator.reconcile.status import State, StatusFacts, build_status

DRAIN_SECONDS = 20.0
"""What an agent gets to finish or hand back."""
DRAIN_SLACK_SECONDS = 5.0
LOOK_AGAIN_SECONDS = 5.0
CRASH_MEMORY_SECONDS = 600.0
DEAF_SECONDS = 10.0
"""Messages that an idle agent has not taken for this long do not reach it. It takes one within milliseconds."""
PROFILE_GONE = "profile_gone"
SUSPENDED = "suspended"
NOT_STARTED = "not_started"
"""Reasons of dead letters."""


def decide(observed: Observed, now: float) -> Plan:
    """Return what to do about a session."""
    if observed.session.deleting:
        return _deleted(observed, now)
    wants_purge = observed.session.spec.deletion_policy == "Purge"
    if wants_purge != observed.session.finalized:
        # Before anything else: a deletion in the next moment must find it right.
        return Plan(actions=(Hold(wants_purge),), due=now)
    if isinstance(observed.pods, Unknown):
        return Plan(due=now + LOOK_AGAIN_SECONDS, notes=(observed.pods.why,))
    live = [pod for pod in observed.pods if not pod.deleting]
    if live:
        return _with_pod(observed, live, now)
    return _without_pod(observed, now)


def crash_delay(crashes: int) -> float:
    """Return the seconds to wait before the start that follows this many crashes in a row."""
    return 0.0 if crashes <= 1 else min(300.0, 5.0 * 2 ** (crashes - 2))


def _deleted(observed: Observed, now: float) -> Plan:
    """Owner references end the pod and the rest; the consumer is nobody's child.

    A session that leaves nothing behind waits: first for its pods, which could still write, then for the purge.
    """
    epoch = observed.session.status.epoch
    if not observed.session.finalized:
        return Plan(actions=(Stop(epoch, "", ""),) if epoch else ())
    if isinstance(observed.pods, Unknown):
        return Plan(due=now + LOOK_AGAIN_SECONDS, notes=(observed.pods.why,))
    if observed.pods:
        stops = tuple(Stop(pod.epoch, pod.name, pod.uid) for pod in observed.pods if not pod.deleting)
        return Plan(actions=stops, due=now + LOOK_AGAIN_SECONDS)
    stop: tuple[Action, ...] = (Stop(epoch, "", ""),) if epoch else ()
    return Plan(actions=(*stop, Purge(), Hold(False)))


def _with_pod(observed: Observed, live: list[PodView], now: float) -> Plan:
    current, older = live[-1], live[:-1]
    stops: list[Action] = [Stop(pod.epoch, pod.name, pod.uid) for pod in older]
    summary = observed.summary
    if isinstance(summary, SessionSummary) and current.epoch < summary.epoch:
        return Plan(actions=(*stops, Stop(current.epoch, current.name, current.uid)), due=now)
    found = diagnose(current)
    if found.health is Health.BROKEN:
        problem = found.problem or Problem("PodEnded", "the pod ended")
        stop = Stop(current.epoch, current.name, current.uid, crashed=problem.reason, why=problem.message)
        return Plan(actions=(*stops, stop), due=now)
    if _services_moved(observed, current):
        return Plan(actions=(*stops, Stop(current.epoch, current.name, current.uid)), due=now)
    if not _spoke(observed, current):
        return _starting(observed, current, found, stops, now)
    return _awake(observed, current, found, stops, now)


def _services_moved(observed: Observed, pod: PodView) -> bool:
    """Tell whether a service left every address that the pod knows it by, as after a reinstallation: it is cut off."""
    known = pod.host_aliases
    return bool(known) and any(addresses and not addresses & known for addresses in observed.services)


def _spoke(observed: Observed, pod: PodView) -> bool:
    """Tell whether the pod's agent has reported; after a restart of the operator the status remembers it."""
    word, status = observed.memory.word, observed.session.status
    if word is not None and word.epoch == pod.epoch:
        return True
    return status.epoch == pod.epoch and status.state in (State.READY, State.BUSY, State.DRAINING)


def _starting(observed: Observed, pod: PodView, found: Diagnosis, stops: list[Action], now: float) -> Plan:
    outdated = bool(observed.template) and pod.template != observed.template
    if observed.session.spec.suspend or outdated:
        return Plan(actions=(*stops, Stop(pod.epoch, pod.name, pod.uid)), due=now)
    if found.health is Health.RUNNING and now - pod.created_at > observed.limits.silence:
        why = f"its containers ran and its agent said nothing for {observed.limits.silence:g} s"
        return Plan(actions=(*stops, Stop(pod.epoch, pod.name, pod.uid, crashed="AgentSilent", why=why)), due=now)
    facts = StatusFacts(State.STARTING, pod, found)
    return Plan(tuple(stops), build_status(observed, facts, now), due=now + LOOK_AGAIN_SECONDS)


def _awake(observed: Observed, pod: PodView, found: Diagnosis, stops: list[Action], now: float) -> Plan:
    drain, word = observed.memory.drain, observed.memory.word
    drained = word is not None and word.epoch == pod.epoch and word.state is AgentState.DRAINED
    if drained or (drain is not None and drain.epoch == pod.epoch and now >= drain.deadline):
        return Plan(actions=(*stops, Stop(pod.epoch, pod.name, pod.uid)), due=now)
    if drain is not None and drain.epoch == pod.epoch:
        facts = StatusFacts(State.DRAINING, pod, found)
        return Plan(tuple(stops), build_status(observed, facts, now), due=drain.deadline)
    idle_at = _idle_at(observed, pod)
    if observed.session.spec.suspend or (idle_at is not None and now >= idle_at):
        actions = (*stops, Drain(pod.epoch, DRAIN_SECONDS, _saving_seconds(observed)))
        return Plan(actions, build_status(observed, StatusFacts(State.DRAINING, pod, found), now), due=now)
    renewed_at = observed.memory.renewed_at
    if renewed_at is None or now >= renewed_at + observed.limits.renew:
        stops.append(Renew(pod.epoch, pod.name, update_secret=renewed_at is not None))
        renewed_at = now
    if _deaf(observed, pod, now):
        stops.append(Resubscribe(pod.epoch))
    state = State.BUSY if _busy(observed, pod) else State.READY
    plan_due = min(renewed_at + observed.limits.renew, now + LOOK_AGAIN_SECONDS if idle_at is None else idle_at)
    return Plan(tuple(stops), build_status(observed, StatusFacts(state, pod, found), now), due=plan_due)


def _saving_seconds(observed: Observed) -> float:
    return saving_seconds(observed.profile.spec) if isinstance(observed.profile, ProfileVerdict) else 0.0


def _holds_files(observed: Observed, profile: ProfileVerdict, now: float) -> bool:
    """Tell whether a pod on its way out still has the session's files: a volume that two must not write, or an archive.

    An agent that somebody's deletion ends saves its files first, and could not any more under a newer epoch.
    """
    assert not isinstance(observed.pods, Unknown)
    if profile.spec.sandbox.workspace.kind == "PersistentVolumeClaim":
        return bool(observed.pods)
    if not saving_seconds(profile.spec):
        return False
    word = observed.memory.word
    said_all = word.epoch if word is not None and word.state is AgentState.DRAINED else 0
    agents = ((pod.gone_by, pod.containers.get(AGENT)) for pod in observed.pods if pod.epoch != said_all)
    return any(now < gone_by and agent is not None and agent.started for gone_by, agent in agents)


def _deaf(observed: Observed, pod: PodView, now: float) -> bool:
    """Tell whether messages wait for an agent that is idle: what should hand them to it may be gone from the bus."""
    since, word = observed.memory.waiting_since, observed.memory.word
    waits = isinstance(observed.pending, int) and observed.pending > 0
    if since is None or not waits or _busy(observed, pod):
        return False
    return now - max(since, word.at if word is not None else 0.0) >= DEAF_SECONDS


def _busy(observed: Observed, pod: PodView) -> bool:
    word, summary = observed.memory.word, observed.summary
    if word is not None and word.epoch == pod.epoch:
        return word.state is AgentState.BUSY
    return isinstance(summary, SessionSummary) and summary.running_turns > 0


def _idle_at(observed: Observed, pod: PodView) -> float | None:
    """Return when the session has been idle long enough, or None while it works or while that cannot be known."""
    since = _idle_since(observed, pod)
    if since is None:
        return None
    return since + (min(YIELD_SECONDS, idle_timeout(observed)) if observed.yields else idle_timeout(observed))


def idle_since(observed: Observed) -> float | None:
    """Return when a session with a pod last did something, or None while it works or while that cannot be known."""
    live = [] if isinstance(observed.pods, Unknown) else [pod for pod in observed.pods if not pod.deleting]
    return _idle_since(observed, live[-1]) if live and _spoke(observed, live[-1]) else None


def _idle_since(observed: Observed, pod: PodView) -> float | None:
    summary, pending = observed.summary, observed.pending
    if isinstance(summary, Unknown) or isinstance(pending, Unknown):
        return None
    if pending > 0 or observed.commanded or _busy(observed, pod) or (summary is not None and summary.running_turns > 0):
        return None
    last = max(pod.created_at, summary.last_activity if summary is not None else 0.0)
    word = observed.memory.word
    if word is not None and word.epoch == pod.epoch:
        last = max(last, word.at)
    return last


def idle_timeout(observed: Observed) -> int:
    """Return the session's own idle timeout, or its Profile's."""
    own = observed.session.spec.idle_timeout_seconds
    if own is not None:
        return own
    return observed.profile.spec.idle_timeout_seconds if isinstance(observed.profile, ProfileVerdict) else 900


def _without_pod(observed: Observed, now: float) -> Plan:
    assert not isinstance(observed.pods, Unknown)
    session, memory = observed.session, observed.memory
    if session.spec.suspend:
        return _suspended(observed, now)
    wanted = _wanted(observed)
    if wanted is None and session.status.state == State.QUEUED:
        return Plan(due=now + LOOK_AGAIN_SECONDS)
    if wanted is None:
        return Plan(due=now + LOOK_AGAIN_SECONDS, status=build_status(observed, _resting(observed), now))
    if not wanted:
        return _asleep(observed, State.ASLEEP, now)
    profile, summary = observed.profile, observed.summary
    if isinstance(profile, Unknown):
        return Plan(due=now + LOOK_AGAIN_SECONDS, notes=(profile.why,))
    if profile is None:
        actions, due = _burial(observed, observed.limits.bury, PROFILE_GONE, now)
        return Plan(actions, build_status(observed, StatusFacts(State.FAILED), now), due)
    if not profile.ready:
        return _kept_waiting(observed, State.FAILED, now)
    blocked_until = max(
        memory.failure.not_before if memory.failure else 0.0,
        memory.crashed_at + crash_delay(memory.crashes) if memory.crashes else 0.0,
    )
    if blocked_until > now:
        return _kept_waiting(observed, State.FAILED, now, due=blocked_until)
    if _holds_files(observed, profile, now):
        # The end of the old pod brings us back here.
        return Plan(status=build_status(observed, StatusFacts(State.STARTING), now), due=now + LOOK_AGAIN_SECONDS)
    if isinstance(summary, Unknown):
        return Plan(status=build_status(observed, StatusFacts(State.FAILED), now), due=now + LOOK_AGAIN_SECONDS)
    if observed.place is not None:
        state = State.FAILED if observed.place.why is Why.TOO_LARGE else State.QUEUED
        return _kept_waiting(observed, state, now, due=now + LOOK_AGAIN_SECONDS)
    return Plan(actions=(Start(summary.epoch if summary is not None else 0),), due=now)


def _suspended(observed: Observed, now: float) -> Plan:
    plan = _asleep(observed, State.SUSPENDED, now)
    actions, due = _burial(observed, observed.limits.bury_suspended, SUSPENDED, now)
    return Plan((*plan.actions, *actions), plan.status, due)


def _kept_waiting(observed: Observed, state: State, now: float, due: float | None = None) -> Plan:
    """Wait for what keeps a session from starting to go away; a message that has waited for very long is given up."""
    actions, give_up_at = _burial(observed, observed.limits.bury_suspended, NOT_STARTED, now)
    status = build_status(observed, StatusFacts(state), now)
    return Plan(actions, status, min((at for at in (due, give_up_at) if at is not None), default=None))


def _burial(observed: Observed, limit: float, reason: str, now: float) -> tuple[tuple[Action, ...], float | None]:
    """Return what to do about messages that nothing will take, and when to look again."""
    oldest = observed.oldest_pending
    if isinstance(oldest, Unknown):
        return (), now + LOOK_AGAIN_SECONDS
    if oldest is None:
        return (), None
    if now - oldest >= limit:
        return (Bury(now - limit, reason),), now + LOOK_AGAIN_SECONDS
    return (), oldest + limit


def _wanted(observed: Observed) -> bool | None:
    """Tell whether the session needs a pod; None when that cannot be known.

    A session that was never started is started once, so that the person who made it sees it work.
    """
    if observed.commanded or (isinstance(observed.pending, int) and observed.pending > 0):
        return True
    if observed.memory.wants_start or observed.session.status.state == State.STARTING:
        # A start was begun and no agent has spoken since: an operator that came between must not drop it.
        return True
    if observed.session.status.epoch == 0:
        if isinstance(observed.summary, Unknown):
            return None
        return observed.summary is None or observed.summary.epoch == 0
    return None if isinstance(observed.pending, Unknown) else False


def _resting(observed: Observed) -> StatusFacts:
    return StatusFacts(State.SUSPENDED if observed.session.spec.suspend else State.ASLEEP)


def _asleep(observed: Observed, state: State, now: float) -> Plan:
    session = observed.session
    actions: tuple[Action, ...] = ()
    if session.status.pod:
        # Its pod went without us: evicted, deleted by a person, or while no operator was there.
        actions = (Stop(session.status.epoch, "", ""),)
    status = build_status(observed, StatusFacts(state), now)
    due = None
    if state is State.ASLEEP and _may_be_forgotten(observed):
        forget_at = _asleep_since(observed) + observed.limits.asleep_ttl
        if now >= forget_at:
            return Plan((*actions, Forget()))
        due = forget_at
    return Plan(actions, status, due)


def _may_be_forgotten(observed: Observed) -> bool:
    """Only what a message made and will make again, and only where no files would be lost with it."""
    profile = observed.profile
    return (
        observed.limits.asleep_ttl > 0
        and observed.session.made_by_operator
        and observed.session.spec.deletion_policy == "Keep"
        and isinstance(profile, ProfileVerdict)
        and profile.spec.sandbox.workspace.kind != "PersistentVolumeClaim"
        and observed.pending == 0
    )


def _asleep_since(observed: Observed) -> float:
    for condition in observed.session.status.conditions:
        if condition.type == "Hibernated" and condition.status == "True":
            return timestamp(condition.last_transition_time)
    return observed.session.created_at
