"""The status of a session, and when it is worth a write."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hermes_contracts.crd.session import SessionStatus
from hermes_contracts.store_api import SessionSummary
from hermes_operator.build.money import usd
from hermes_operator.build.pod import isolation
from hermes_operator.build.quantity import MIB
from hermes_operator.cluster.views import PodView
from hermes_operator.reconcile.admission import Place, Why
from hermes_operator.reconcile.conditions import Finding, rfc3339, settle
from hermes_operator.reconcile.model import Observed, ProfileVerdict, Unknown
from hermes_operator.reconcile.pods import Diagnosis, Health
from hermes_operator.reconcile.unasked import unasked

MINOR_SECONDS = 60.0
"""Counters and the change between Ready and Busy are written at most this often."""


class State(StrEnum):
    """What `kubectl get hs` shows; conditions say why."""

    ASLEEP = "Asleep"
    STARTING = "Starting"
    READY = "Ready"
    BUSY = "Busy"
    DRAINING = "Draining"
    QUEUED = "Queued"
    SUSPENDED = "Suspended"
    FAILED = "Failed"


_UP = frozenset({State.READY, State.BUSY})


@dataclass(frozen=True)
class StatusFacts:
    """What decide found; no pod: there is none."""

    state: State
    pod: PodView | None = None
    found: Diagnosis | None = None


def build_status(observed: Observed, facts: StatusFacts, now: float) -> SessionStatus:
    """Return the status that says what was found. What is unknown stays as it was said before."""
    session, old = observed.session, observed.session.status
    summary, pod = observed.summary, facts.pod
    known = summary if isinstance(summary, SessionSummary) else None
    startup = observed.memory.startup
    profile = observed.profile
    runtime = profile.spec.sandbox.runtime_class_name if isinstance(profile, ProfileVerdict) else None
    # Times and counts come from one row: without it, all of them stay.
    return SessionStatus(
        observed_generation=session.generation,
        id=observed.sid,
        state=facts.state.value,
        conditions=settle(_findings(observed, facts), old.conditions, session.generation, now),
        pod=pod.name if pod is not None else "",
        epoch=pod.epoch if pod is not None else max(old.epoch, known.epoch if known else 0),
        isolation=(isolation(runtime) if isinstance(profile, ProfileVerdict) else old.isolation) if pod else "",
        last_activity=rfc3339(known.last_activity) if known and known.last_activity else old.last_activity,
        queue_position=observed.place.position if observed.place is not None else 0,
        pending=observed.pending if isinstance(observed.pending, int) else old.pending,
        turns=known.turns if known else old.turns,
        input_tokens=known.usage.input_tokens if known else old.input_tokens,
        output_tokens=known.usage.output_tokens if known else old.output_tokens,
        cost_usd=usd(known.usage.cost_nano_usd) if known else old.cost_usd,
        startup_milliseconds=startup[1] if startup and pod and startup[0] == pod.epoch else old.startup_milliseconds,
    )


def _findings(observed: Observed, facts: StatusFacts) -> list[Finding]:
    found, pod = facts.found, facts.pod
    asleep = facts.state in (State.ASLEEP, State.SUSPENDED)
    result = [
        _ready(observed, facts),
        Finding("Hibernated", asleep, facts.state.value, "" if not asleep else _asleep_message(facts.state)),
        _bus(observed),
    ]
    if pod is not None:
        result += _unasked(observed)
    if pod is not None and found is not None:
        result.append(_pod_ready(found))
        if found.unscheduled is not None:
            result.append(Finding("Scheduled", False, found.unscheduled.reason, found.unscheduled.message))
        else:
            result.append(Finding("Scheduled", pod.scheduled or None, "Scheduled" if pod.scheduled else "Waiting"))
        problem = found.sandbox_problem
        result.append(
            Finding("SandboxReady", found.sandbox_ready, problem.reason, problem.message)
            if problem is not None
            else Finding("SandboxReady", found.sandbox_ready, "Running" if found.sandbox_ready else "Starting")
        )
    elif observed.memory.failure is not None and observed.memory.failure.component == "PodReady":
        failure = observed.memory.failure
        result.append(Finding("PodReady", False, failure.reason, failure.message))
    summary = observed.summary
    if isinstance(summary, SessionSummary) and summary.failed_deliveries:
        text = f"{summary.failed_deliveries} answers could not be delivered" + (
            f"; last: {summary.last_error}" if summary.last_error else ""
        )
        result.append(Finding("DeliveryFailed", True, "DeliveryFailed", text))
    if observed.dead_letters:
        text = f"{observed.dead_letters} messages were given up and wait among the dead letters"
        result.append(Finding("DeadLetter", True, "MessagesGivenUp", text))
    return result


def _unasked(observed: Observed) -> list[Finding]:
    """Say that nobody is asked before commands; what was said stays while the Profile is not known yet."""
    profile = observed.profile
    if isinstance(profile, ProfileVerdict):
        found = unasked(profile.spec.approvals)
        return [] if found is None else [found]
    said = [one for one in observed.session.status.conditions if one.type == "CommandsUnasked"]
    return [Finding(one.type, one.status == "True", one.reason, one.message) for one in said]


def _asleep_message(state: State) -> str:
    return "suspend is true" if state is State.SUSPENDED else "the next message wakes it"


def _ready(observed: Observed, facts: StatusFacts) -> Finding:
    if facts.state in _UP:
        return Finding("Ready", True, "AgentReady", "the agent answers")
    if facts.found is not None and facts.found.problem is not None:
        return Finding("Ready", False, facts.found.problem.reason, facts.found.problem.message)
    if facts.state is State.STARTING and observed.memory.crash:
        return Finding("Ready", False, facts.state.value, f"the pod before ended: {observed.memory.crash}")
    if observed.place is not None:
        return Finding("Ready", False, observed.place.why, _queued_message(observed.place))
    if facts.state is not State.FAILED:
        return Finding("Ready", False, facts.state.value, "")
    profile, memory, summary = observed.profile, observed.memory, observed.summary
    if profile is None:
        name = observed.session.spec.profile_ref.name
        return Finding("Ready", False, "ProfileNotFound", f"there is no Profile {name!r}; make it or delete the session")
    if isinstance(profile, ProfileVerdict) and not profile.ready:
        return Finding("Ready", False, "ProfileNotReady", f"{profile.reason}: {profile.message}")
    if memory.failure is not None:
        return Finding("Ready", False, memory.failure.reason, memory.failure.message)
    if memory.crashes:
        return Finding(
            "Ready",
            False,
            "CrashLoop",
            f"the pod ended {memory.crashes} times in a row, last: {memory.crash}; it starts again later",
        )
    if isinstance(summary, Unknown):
        return Finding("Ready", False, "StoreUnavailable", summary.why)
    return Finding("Ready", False, "Waiting", "")


def _queued_message(place: Place) -> str:
    mebibytes = place.limit // MIB
    after = "; it starts when another session sleeps (status.queuePosition)"
    return {
        Why.PROFILE_FULL: f"its Profile allows {place.limit} live sessions{after}",
        Why.NAMESPACE_FULL: f"its namespace may have {place.limit} live sessions{after}",
        Why.NAMESPACE_MEMORY: f"the sessions of its namespace may request {mebibytes} MiB of memory{after}",
        Why.TOO_LARGE: f"its pod requests more memory than the {mebibytes} MiB of its namespace; make its Profile's "
        "agent.resources or sandbox.resources smaller",
    }[place.why]


def _pod_ready(found: Diagnosis) -> Finding:
    if found.problem is not None:
        return Finding("PodReady", False, found.problem.reason, found.problem.message)
    running = found.health is Health.RUNNING
    return Finding("PodReady", running, "Running" if running else "Starting")


def _bus(observed: Observed) -> Finding:
    failure = observed.memory.failure
    if failure is not None and failure.component == "BusReady":
        return Finding("BusReady", False, failure.reason, failure.message)
    if isinstance(observed.pending, Unknown):
        return Finding("BusReady", None, "BusUnavailable", observed.pending.why)
    return Finding("BusReady", True, "BusReady")


def worth_writing(old: SessionStatus, new: SessionStatus, written_at: float, now: float) -> bool:
    """Tell whether a status is written now: transitions at once, counters at most once a minute."""
    if new == old:
        return False
    if _transition(old) != _transition(new):
        return True
    return now - written_at >= MINOR_SECONDS


def write_later_at(old: SessionStatus, new: SessionStatus, written_at: float) -> float | None:
    """Return when a difference that is not worth a write yet will be; None when there is none."""
    return None if new == old else written_at + MINOR_SECONDS


def _transition(status: SessionStatus) -> object:
    state = State.READY.value if status.state == State.BUSY else status.state
    conditions = [(c.type, c.status, c.reason, c.message) for c in status.conditions]
    generation, startup = status.observed_generation, status.startup_milliseconds
    return state, conditions, status.pod, status.epoch, status.id, status.isolation, generation, startup
