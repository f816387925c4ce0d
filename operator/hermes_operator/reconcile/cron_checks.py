"""Why a job cannot run: what is looked at before anything is spent. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts.crd.cron_job import CHAT_CHANNELS, DELIVER_CHANNELS, DeliverTarget
from hermes_contracts.names import HOME_CHANNEL
from hermes_operator.reconcile.cron_model import ObservedCron
from hermes_operator.reconcile.model import ProfileVerdict, Unknown

MAX_SKEW_SECONDS = 5.0
"""Between our clock and the API server's."""
CHANNELS = {channel: channel in CHAT_CHANNELS for channel in DELIVER_CHANNELS}
"""Channels that a target may name, and whether it must name a chat there."""


@dataclass(frozen=True)
class Problem:
    """Why nothing is started: reason and sentence of the `Ready` condition. `unknown`: it could not be found out."""

    reason: str
    message: str
    unknown: bool = False


def find_problem(observed: ObservedCron) -> Problem | None:
    """Return what keeps a job from running, or None."""
    for check in (_profile, _toolsets, _session, _context, _targets):
        problem = check(observed)
        if problem is not None:
            return problem
    return None


def _profile(observed: ObservedCron) -> Problem | None:
    name, profile = observed.view.spec.profile_ref.name, observed.profile
    if isinstance(profile, Unknown):
        return Problem("ProfileUnknown", profile.why, unknown=True)
    if profile is None:
        return Problem("ProfileMissing", f"spec.profileRef: there is no Profile {name}; make it, or name another")
    if not profile.ready:
        return Problem(
            "ProfileNotReady", f"spec.profileRef: Profile {name} is not ready: {profile.message or profile.reason}"
        )
    return None


def _toolsets(observed: ObservedCron) -> Problem | None:
    wanted, profile = observed.view.spec.toolsets, observed.profile
    if isinstance(profile, ProfileVerdict):
        missing = sorted(set(wanted or ()) - set(profile.spec.toolsets))
        if missing:
            name = observed.view.spec.profile_ref.name
            return Problem("ToolsetMissing", f"spec.toolsets: Profile {name} has no toolset {', '.join(missing)}")
    return None


def _session(observed: ObservedCron) -> Problem | None:
    spec, session = observed.view.spec, observed.session
    if spec.session_ref is None:
        return None
    if isinstance(session, Unknown):
        return Problem("SessionUnknown", session.why, unknown=True)
    if session is None:
        return Problem("SessionMissing", f"spec.sessionRef: there is no HermesSession {spec.session_ref.name}")
    if session.deleting:
        return Problem("SessionMissing", f"spec.sessionRef: HermesSession {session.name} is being deleted")
    theirs = session.spec.profile_ref.name
    if theirs != spec.profile_ref.name:
        return Problem("SessionOfOtherProfile", f"spec.sessionRef: HermesSession {session.name} has Profile {theirs}")
    return None


def _context(observed: ObservedCron) -> Problem | None:
    missing = [name for name in observed.view.spec.context_from if name not in observed.jobs]
    if missing:
        return Problem("JobMissing", f"spec.contextFrom: there is no HermesCronJob {', '.join(missing)}")
    return None


def _targets(observed: ObservedCron) -> Problem | None:
    for number, target in enumerate(observed.view.spec.deliver):
        if target.channel not in CHANNELS:
            known = ", ".join(sorted(CHANNELS))
            return Problem("TargetUnknown", f"spec.deliver[{number}].channel: {target.channel!r} is not one of: {known}")
        if CHANNELS[target.channel] and not target.chat:
            return Problem("TargetUnknown", f"spec.deliver[{number}].chat: name the chat on {target.channel}")
        if target.channel == HOME_CHANNEL and not _names_home(target):
            why = "of home, chat is slack, telegram or nothing, and thread is nothing"
            return Problem("TargetUnknown", f"spec.deliver[{number}]: {why}")
    return None


def _names_home(target: DeliverTarget) -> bool:
    return not target.thread and (not target.chat or CHANNELS.get(target.chat, False))
