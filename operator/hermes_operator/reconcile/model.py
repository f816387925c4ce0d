"""The nouns of deciding about a session: what was observed, what is remembered, what is planned."""

from __future__ import annotations

from dataclasses import dataclass, field

from hermes_contracts.crd.profile import ProfileSpec
from hermes_contracts.crd.session import SessionStatus, StartupBreakdown
from hermes_contracts.store_api import AgentState, SessionSummary
from hermes_operator.cluster.views import PodView, SessionView
from hermes_operator.reconcile.admission import Place


@dataclass(frozen=True)
class Unknown:
    """Something could not be read. Never the same as empty: nothing is ended or deleted because of it."""

    why: str


@dataclass(frozen=True)
class ProfileVerdict:
    """What the Profile's own pass found."""

    spec: ProfileSpec
    ready: bool
    reason: str
    message: str


@dataclass(frozen=True)
class AgentWord:
    """The last thing an epoch's agent said of itself."""

    epoch: int
    state: AgentState
    at: float


@dataclass(frozen=True)
class DrainOrder:
    """An order to stop that an epoch's agent was given."""

    epoch: int
    deadline: float


@dataclass(frozen=True)
class StartFailure:
    """A start that was refused; `component` says whose condition shows it."""

    component: str
    reason: str
    message: str
    count: int
    not_before: float


@dataclass(frozen=True, slots=True)
class Memory:
    """What the operator remembers of a session between passes; all of it may be lost."""

    word: AgentWord | None = None
    drain: DrainOrder | None = None
    failure: StartFailure | None = None
    prepared_epoch: int = 0
    """Epoch that was raised and whose pod was not made yet."""
    wants_start: bool = False
    """A start was begun and no agent has spoken since: it is tried again, messages or not."""
    renewed_at: float | None = None
    crashes: int = 0
    crashed_at: float = 0.0
    crash: str = ""
    """Why the last one was replaced: reason and sentence."""
    startup: tuple[int, StartupBreakdown] | None = None
    """Epoch and its breakdown."""
    started: tuple[int, float] | None = None
    """Epoch, and when it was decided to start it."""
    scheduled_at: float | None = None
    """When the watch showed that the pod has a node."""
    status_written_at: float = 0.0
    waiting_since: float | None = None
    """Since when messages have been seen waiting for a pod that is up; None: none do."""


@dataclass(frozen=True)
class Limits:
    """How long things may take, in seconds; 0 for the first: for ever."""

    asleep_ttl: int = 0
    """Sleep after which the object of a session that a message made is deleted."""
    renew: float = 1200.0
    """A third of the models token's hour: a renewal may be missed twice."""
    silence: float = 300.0
    """A pod whose containers run and whose agent has said nothing for this long is replaced."""
    bury: float = 600.0
    """What a message waits for a Profile that is not there."""
    bury_suspended: float = 604_800.0
    """What a message waits for a session that is suspended, or that cannot be started."""


@dataclass(frozen=True)
class Observed:
    """Everything a decision may rest on."""

    session: SessionView
    sid: str
    profile: ProfileVerdict | Unknown | None
    """None: there is no such Profile."""
    pods: tuple[PodView, ...] | Unknown
    pending: int | Unknown
    summary: SessionSummary | Unknown | None
    """None: the store knows no such session."""
    memory: Memory
    template: str = ""
    """Hash of what a pod made now would be made from."""
    services: tuple[frozenset[str], ...] = ()
    """Addresses of each service that an agent needs, as they are now."""
    oldest_pending: float | Unknown | None = None
    """When the bus took the first waiting message; asked only where nothing will take it soon."""
    dead_letters: int = 0
    commanded: bool = False
    """A person asked for something that needs an agent and is no message."""
    place: Place | None = None
    """Where it stands among those that wait for a place; asked only when a start is decided."""
    yields: bool = False
    """Others wait for its place and it is among those that have been idle longest."""
    limits: Limits = Limits()


@dataclass(frozen=True)
class Start:
    """Raise the epoch from `expected`, make the consumer, the Secret and the pod."""

    expected: int


@dataclass(frozen=True)
class Drain:
    """Tell an epoch's agent to stop."""

    epoch: int
    deadline_seconds: float
    saving_seconds: float = 0.0
    """How much longer it may take to save its files."""


@dataclass(frozen=True)
class Stop:
    """Delete an epoch's consumer, pod and Secret, in that order. `crashed` counts it against the session."""

    epoch: int
    pod: str
    pod_uid: str
    crashed: str = ""
    """Reason, when the pod broke."""
    why: str = field(default="", compare=False)


@dataclass(frozen=True)
class Renew:
    """Send an epoch's agent fresh credentials, and put them into its Secret when that is due too."""

    epoch: int
    pod: str
    update_secret: bool


@dataclass(frozen=True)
class Resubscribe:
    """Make an epoch's consumer again, where it is gone."""

    epoch: int


@dataclass(frozen=True)
class Bury:
    """Give up the messages that the bus took before a time, in seconds since the epoch."""

    before: float
    reason: str


@dataclass(frozen=True)
class Hold:
    """Have the object stay after its deletion until it is purged, or no longer."""

    held: bool


@dataclass(frozen=True)
class Purge:
    """Delete everything that the store and the bus hold of the session, then let its object go."""


@dataclass(frozen=True)
class Forget:
    """Delete the object of a session that slept long enough."""


Action = Start | Drain | Stop | Renew | Resubscribe | Bury | Hold | Purge | Forget


@dataclass(frozen=True)
class Plan:
    """What to do now, what to say, and when to look again."""

    actions: tuple[Action, ...] = ()
    status: SessionStatus | None = None
    """None: say nothing."""
    due: float | None = None
    notes: tuple[str, ...] = field(default=())
