"""What to say of a Profile: whether it can serve, why not, and what the gateway may know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hermes_contracts.crd.channels import Claimant, conflicts, mistyped
from hermes_contracts.crd.profile import ProfileStatus
from hermes_contracts.projection import ProfileProjection
from hermes_contracts.providers import SCRIPTED
from hermes_operator.build.money import usd
from hermes_operator.cluster.views import ProfileView
from hermes_operator.reconcile.conditions import Finding, settle
from hermes_operator.reconcile.model import ProfileVerdict, Unknown
from hermes_operator.reconcile.provider_secrets import Fault, SecretState, faults, uses
from hermes_operator.reconcile.unasked import unasked

RECHECK_SECONDS = 300.0
RECHECK_BROKEN_SECONDS = 10.0
"""What a watch of metadata may miss is looked at this often."""
COUNTS_SECONDS = 60.0


@dataclass(frozen=True)
class Spend:
    """What a Profile's sessions have cost, in billionths of a US dollar."""

    day: int = 0
    month: int = 0


@dataclass(frozen=True)
class ObservedProfile:
    """Everything that is said of a Profile rests on this."""

    view: ProfileView
    namespace_uid: str
    namespace_restricted: bool
    secrets: Mapping[str, SecretState]
    """Every Secret that its models name."""
    live_sessions: int
    asleep_sessions: int
    warm_pods: int = 0
    """Pods that are ready to become one of its sessions."""
    policies: Unknown | None = None
    """Why the namespace's NetworkPolicies could not be made; None: they are there."""
    rivals: tuple[Claimant, ...] = ()
    """The other Profiles of its namespace that claim chats."""
    spend: Spend | None = None
    """None: not known, what was said before stays."""


@dataclass(frozen=True)
class ProfilePlan:
    """What to write and when to look again."""

    verdict: ProfileVerdict | None
    """None: unknown, what was said before stays."""
    status: ProfileStatus
    projection: ProfileProjection | None
    due: float


def decide_profile(observed: ObservedProfile, now: float) -> ProfilePlan:
    """Return what to say of a Profile."""
    view = observed.view
    main, others = faults(view.spec, observed.secrets)
    ready = _ready(observed, main)
    findings = [ready]
    if uses(view.spec):
        findings.append(_secrets([*main, *others]))
    if view.spec.model.provider == SCRIPTED:
        findings.append(
            Finding(
                "Scripted", True, "ScriptedModel", "answers come from the bundled scripted model, not from a language model"
            )
        )
    findings.append(_namespace(observed))
    if view.spec.channels:
        findings += [_channels(observed), _ids(observed)]
    without_asking = unasked(view.spec.approvals)
    if without_asking is not None:
        findings.append(without_asking)
    status = ProfileStatus(
        observed_generation=view.generation,
        conditions=settle(findings, view.status.conditions, view.generation, now),
        live_sessions=observed.live_sessions,
        asleep_sessions=observed.asleep_sessions,
        warm_pods=observed.warm_pods,
        spent_today_usd=usd(observed.spend.day) if observed.spend else view.status.spent_today_usd,
        spent_month_usd=usd(observed.spend.month) if observed.spend else view.status.spent_month_usd,
    )
    due = now + (RECHECK_BROKEN_SECONDS if main or others or not ready.status else RECHECK_SECONDS)
    if ready.status is None:
        return ProfilePlan(None, status, None, due)
    verdict = ProfileVerdict(view.spec, ready.status, ready.reason, ready.message)
    projection = ProfileProjection(
        namespace=view.namespace,
        namespace_uid=observed.namespace_uid,
        name=view.name,
        model=view.spec.model.name,
        provider=view.spec.model.provider,
        choices=tuple(choice.name for choice in view.spec.model.choices),
        ready=ready.status,
        message="" if ready.status else ready.message,
        channels=view.spec.channels,
        approvers=view.spec.approvals.approvers,
        approvals=view.spec.approvals.mode,
        created_at=view.created_at,
    )
    return ProfilePlan(verdict, status, projection, due)


def worth_writing(old: ProfileStatus, new: ProfileStatus, written_at: float, now: float) -> bool:
    """Tell whether a status is written now: conditions and whether pods wait at once, counts at most once a minute."""
    if old == new:
        return False

    def said(status: ProfileStatus) -> object:
        pooled = status.warm_pods > 0
        return status.observed_generation, pooled, [(c.type, c.status, c.reason, c.message) for c in status.conditions]

    return said(old) != said(new) or now - written_at >= COUNTS_SECONDS


def _ready(observed: ObservedProfile, main: list[Fault]) -> Finding:
    """A Profile serves as long as its main model can be asked: a fallback without its key is a warning."""
    if isinstance(observed.policies, Unknown):
        return Finding("Ready", False, "NetworkPolicyMissing", observed.policies.why)
    for fault in main:
        return Finding("Ready", fault.status, fault.reason, fault.message)
    return Finding("Ready", True, "Ready")


def _secrets(found: list[Fault]) -> Finding:
    """Name every field whose Secret does not serve; the first one gives the reason."""
    if not found:
        return Finding("SecretsReady", True, "SecretsReady")
    first = next((fault for fault in found if fault.status is False), found[0])
    return Finding("SecretsReady", first.status, first.reason, "; ".join(fault.message for fault in found))


def _channels(observed: ObservedProfile) -> Finding:
    """Name what an older Profile claims as well: the gateway gives it to the older one."""
    view = observed.view
    found = conflicts((view.created_at, view.name, view.spec.channels), observed.rivals)
    if not found:
        return Finding("ChannelConflict", False, "NoConflict")
    claimed = "; ".join(f"{claim} belongs to the older Profile {name}" for claim, name in found)
    message = f"channels: {claimed}; nothing from there comes to this Profile until one of the two gives it up"
    return Finding("ChannelConflict", True, "ClaimedBefore", message)


def _ids(observed: ObservedProfile) -> Finding:
    """Name the ids that the platform never gives: they would let in nobody, and nobody would know."""
    channels = enumerate(observed.view.spec.channels)
    found = [f"channels[{number}].{remark}" for number, rules in channels for remark in mistyped(rules)]
    return Finding("ChannelsValid", not found, "NotAnId" if found else "Valid", "; ".join(found[:8]))


def _namespace(observed: ObservedProfile) -> Finding:
    if observed.namespace_restricted:
        return Finding("NamespaceRestricted", True, "Restricted")
    return Finding(
        "NamespaceRestricted",
        False,
        "NamespaceNotRestricted",
        "the namespace does not enforce the restricted Pod Security Standard; label it "
        "pod-security.kubernetes.io/enforce=restricted",
    )
