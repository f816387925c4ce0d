"""Every right the operator has, as one table.

The chart's roles are generated from it, and the client refuses a call that is not in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hermes_contracts.names import GROUP


class Scope(StrEnum):
    """Where a right holds."""

    CLUSTER = "cluster"
    TENANT = "tenant"
    """A Role in each namespace of `tenants`."""
    RELEASE = "release"
    """A Role in the namespace of the installation."""


@dataclass(frozen=True)
class Permission:
    """Verbs on one resource. `installation_secrets` narrows to the Secrets of `hermes_contracts.installation`."""

    scope: Scope
    group: str
    resource: str
    verbs: tuple[str, ...]
    installation_secrets: bool = False


_READ = ("get", "list", "watch")
_APPLY = ("create", "patch")

PERMISSIONS: tuple[Permission, ...] = (
    Permission(Scope.CLUSTER, GROUP, "hermessessions", _READ),
    Permission(Scope.CLUSTER, GROUP, "profiles", _READ),
    Permission(Scope.CLUSTER, GROUP, "hermescronjobs", _READ),
    # A namespace's UID goes into session ids, and its labels say which Pod Security Standard it enforces.
    Permission(Scope.CLUSTER, "", "namespaces", ("get",)),
    Permission(Scope.TENANT, GROUP, "hermessessions", (*_APPLY, "delete")),
    Permission(Scope.TENANT, GROUP, "hermessessions/status", ("patch",)),
    # Clusters that enforce it ask for this before an owner reference may block its owner's deletion.
    Permission(Scope.TENANT, GROUP, "hermessessions/finalizers", ("update",)),
    Permission(Scope.TENANT, GROUP, "profiles", ("create",)),
    Permission(Scope.TENANT, GROUP, "profiles/status", ("patch",)),
    Permission(Scope.TENANT, GROUP, "hermescronjobs", (*_APPLY, "delete")),
    Permission(Scope.TENANT, GROUP, "hermescronjobs/status", ("patch",)),
    Permission(Scope.TENANT, "", "pods", (*_READ, "create", "patch", "delete")),
    Permission(Scope.TENANT, "", "secrets", ("get", *_APPLY, "delete")),
    Permission(Scope.TENANT, "", "persistentvolumeclaims", ("get", *_APPLY)),
    Permission(Scope.TENANT, "networking.k8s.io", "networkpolicies", ("get", *_APPLY)),
    Permission(Scope.TENANT, "events.k8s.io", "events", ("create",)),
    Permission(Scope.RELEASE, "", "secrets", ("create",)),
    Permission(Scope.RELEASE, "", "secrets", ("get", "patch"), installation_secrets=True),
    Permission(Scope.RELEASE, "coordination.k8s.io", "leases", ("get", "create", "update")),
)


def allowed(verb: str, group: str, resource: str, scopes: frozenset[Scope]) -> bool:
    """Tell whether the table grants a verb in any of these scopes; `resource` may name a subresource: `profiles/status`."""
    wider = scopes | {Scope.CLUSTER}
    return any(p.scope in wider and p.group == group and p.resource == resource and verb in p.verbs for p in PERMISSIONS)
