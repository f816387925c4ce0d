"""What to say of a Profile: whether it can serve, why not, and what the gateway may know of it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from hermes_contracts.crd.profile import ProfileSpec, ProfileStatus
from hermes_contracts.names import PROVIDER_SECRET_TYPE
from hermes_contracts.projection import ProfileProjection
from hermes_operator.cluster.views import ProfileView
from hermes_operator.reconcile.conditions import Finding, settle
from hermes_operator.reconcile.model import ProfileVerdict, Unknown

RECHECK_SECONDS = 300.0
RECHECK_BROKEN_SECONDS = 10.0
"""Secrets are not watched, so that the operator never holds a tenant's: a bad one is looked at again this often."""
COUNTS_SECONDS = 60.0
_DEFAULT_HOSTS = {"openai": "api.openai.com", "anthropic": "api.anthropic.com"}


@dataclass(frozen=True)
class SecretFacts:
    """What is needed of a provider Secret; the key itself is not kept."""

    type: str
    has_key: bool
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class ObservedProfile:
    """Everything that is said of a Profile rests on this."""

    view: ProfileView
    namespace_uid: str
    namespace_restricted: bool
    secret: SecretFacts | Unknown | None
    """None: there is no such Secret, or none is needed."""
    live_sessions: int
    asleep_sessions: int
    policies: Unknown | None = None
    """Why the namespace's NetworkPolicies could not be made; None: they are there."""


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
    ready = _ready(observed)
    findings = [ready]
    if view.spec.model.provider == "scripted":
        findings.append(
            Finding(
                "Scripted", True, "ScriptedModel", "answers come from the bundled scripted model, not from a language model"
            )
        )
    findings.append(_namespace(observed))
    status = ProfileStatus(
        observed_generation=view.generation,
        conditions=settle(findings, view.status.conditions, view.generation, now),
        live_sessions=observed.live_sessions,
        asleep_sessions=observed.asleep_sessions,
    )
    due = now + (RECHECK_SECONDS if ready.status else RECHECK_BROKEN_SECONDS)
    if ready.status is None:
        return ProfilePlan(None, status, None, due)
    verdict = ProfileVerdict(view.spec, ready.status, ready.reason, ready.message)
    projection = ProfileProjection(
        namespace=view.namespace,
        namespace_uid=observed.namespace_uid,
        name=view.name,
        model=view.spec.model.name,
        provider=view.spec.model.provider,
        ready=ready.status,
        message="" if ready.status else ready.message,
        created_at=view.created_at,
    )
    return ProfilePlan(verdict, status, projection, due)


def worth_writing(old: ProfileStatus, new: ProfileStatus, written_at: float, now: float) -> bool:
    """Tell whether a status is written now: conditions at once, counts at most once a minute."""
    if old == new:
        return False

    def said(status: ProfileStatus) -> object:
        return status.observed_generation, [(c.type, c.status, c.reason, c.message) for c in status.conditions]

    return said(old) != said(new) or now - written_at >= COUNTS_SECONDS


def _ready(observed: ObservedProfile) -> Finding:
    model, secret = observed.view.spec.model, observed.secret
    if isinstance(observed.policies, Unknown):
        return Finding("Ready", False, "NetworkPolicyMissing", observed.policies.why)
    if model.provider == "scripted":
        return Finding("Ready", True, "Ready")
    if isinstance(secret, Unknown):
        return Finding("Ready", None, "SecretUnknown", secret.why)
    name = model.secret_ref.name if model.secret_ref else ""
    if secret is None:
        return Finding("Ready", False, "SecretNotFound", f"there is no Secret {name!r} in this namespace; make it")
    problem = secret_problem(observed.view.spec, secret)
    if problem is not None:
        return Finding("Ready", False, "SecretInvalid", f"Secret {name!r}: {problem}")
    return Finding("Ready", True, "Ready")


def secret_problem(spec: ProfileSpec, secret: SecretFacts) -> str | None:
    """Return what is wrong with a provider Secret, or None."""
    if secret.type != PROVIDER_SECRET_TYPE:
        return f"its type is {secret.type!r}; make it again with type {PROVIDER_SECRET_TYPE}"
    if not secret.has_key:
        return "the key 'api-key' is missing or empty"
    if not secret.hosts:
        return "the key 'hosts' is missing or empty; name the hosts this key may be sent to, separated by commas"
    model = spec.model
    host = urlsplit(model.base_url).hostname if model.base_url else _DEFAULT_HOSTS.get(model.provider)
    if host not in secret.hosts:
        return f"its 'hosts' does not name {host}, where this Profile would send the key"
    return None


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
