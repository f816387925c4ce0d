"""What a pod's state means for its session."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hermes_operator.build.pod import AGENT, SANDBOX
from hermes_operator.cluster.views import ContainerView, PodView

_STUCK = frozenset({
    "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
    "RegistryUnavailable", "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
})  # fmt: skip
_MAX_RESTARTS = 2
"""After the second restart the kubelet waits 20 s and more; a new pod is quicker and may land on another node."""


class Health(StrEnum):
    """How a pod does."""

    STARTING = "starting"
    RUNNING = "running"
    BROKEN = "broken"
    ENDING = "ending"


@dataclass(frozen=True)
class Problem:
    """Why something is not as it should be: reason and message of a condition."""

    reason: str
    message: str


@dataclass(frozen=True)
class Diagnosis:
    """What is to be said of a pod."""

    health: Health
    problem: Problem | None = None
    unscheduled: Problem | None = None
    sandbox_ready: bool = False
    sandbox_problem: Problem | None = None


def diagnose(pod: PodView) -> Diagnosis:
    """Tell how a pod does."""
    if pod.deleting:
        return Diagnosis(Health.ENDING)
    agent = pod.containers.get(AGENT, ContainerView())
    sandbox = pod.containers.get(SANDBOX, ContainerView())
    if pod.phase in ("Failed", "Succeeded"):
        return Diagnosis(Health.BROKEN, _ended(pod, agent, sandbox))
    if pod.bus_key and agent.restarts:
        # Its identity was in the memory of the process that is gone.
        return Diagnosis(Health.BROKEN, Problem("AgentRestarted", f"container {AGENT} {_why(agent)}"))
    for name, container in ((AGENT, agent), (SANDBOX, sandbox)):
        if container.waiting_reason == "CrashLoopBackOff" and container.restarts >= _MAX_RESTARTS:
            return Diagnosis(Health.BROKEN, Problem("CrashLoopBackOff", f"container {name} {_why(container)}"))
    unscheduled = Problem("Unschedulable", pod.schedule_message) if pod.schedule_message else None
    sandbox_problem = _stuck(SANDBOX, sandbox)
    problem = _stuck(AGENT, agent) or sandbox_problem or unscheduled
    running = agent.started and sandbox.started
    return Diagnosis(Health.RUNNING if running else Health.STARTING, problem, unscheduled, sandbox.started, sandbox_problem)


def _stuck(name: str, container: ContainerView) -> Problem | None:
    if container.waiting_reason in _STUCK:
        return Problem(container.waiting_reason, f"container {name}: {container.waiting_message}"[:900])
    if container.waiting_reason == "CrashLoopBackOff":
        return Problem("CrashLoopBackOff", f"container {name} {_why(container)}")
    return None


def _why(container: ContainerView) -> str:
    code = "" if container.exit_code is None else f" with exit code {container.exit_code}"
    return f"ended {container.restarts} times, last {container.ended_reason or 'for an unknown reason'}{code}"


def _ended(pod: PodView, agent: ContainerView, sandbox: ContainerView) -> Problem:
    if pod.reason:
        return Problem(pod.reason, pod.message or f"the pod ended: {pod.reason}")
    for name, container in ((AGENT, agent), (SANDBOX, sandbox)):
        if container.ended_reason and container.ended_reason != "Completed":
            return Problem(container.ended_reason, f"container {name} {_why(container)}")
    return Problem("PodEnded", f"the pod is {pod.phase}")
