"""What builders are given: facts of the installation and of one epoch of a session."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts.crd.profile import ProfileSpec


@dataclass(frozen=True)
class HostAddress:
    """A service that agents talk to: the name in its URL, its addresses, its port, and its pods when they are ours."""

    host: str
    addresses: tuple[str, ...]
    port: int
    selector: tuple[tuple[str, str], ...] = ()
    """Labels of its pods, where they are in this cluster; empty: it is outside."""
    namespace: str = ""
    """Of its pods; empty: the release's."""

    def aliased(self) -> frozenset[str]:
        """Return the addresses that a pod needs in /etc/hosts to find the name; none when the name is an address."""
        return frozenset(address for address in self.addresses if address != self.host)


@dataclass(frozen=True)
class Installation:
    """What all sessions share."""

    namespace: str
    agent_image: str
    sandbox_image: str
    image_pull_policy: str
    image_pull_secrets: tuple[str, ...]
    bus: HostAddress
    models: HostAddress
    bus_url: str
    models_url: str
    gateway_public_key: str
    resolvers: tuple[str, ...] = ()
    blocked_cidrs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Epoch:
    """One start of one session."""

    namespace: str
    session: str
    session_uid: str
    sid: str
    epoch: int
    profile_name: str
    profile: ProfileSpec
    idle_timeout_seconds: int
    created_at: float
    """Seconds since the epoch when it was decided to start it."""
