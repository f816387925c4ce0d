"""The resources that the operator knows, and their paths."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hermes_contracts.names import GROUP, VERSION


@dataclass(frozen=True)
class Resource:
    """One resource of the API. `group` is empty for the core group."""

    group: str
    version: str
    plural: str
    subresource: str = ""

    @property
    def plural_path(self) -> str:
        """The name that RBAC uses: `profiles/status`."""
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural

    @property
    def status(self) -> Resource:
        """The status subresource."""
        return replace(self, subresource="status")

    def path(self, namespace: str, name: str = "") -> str:
        """Return the URL's path of a collection, or of one object."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        where = f"/namespaces/{namespace}" if namespace else ""
        tail = f"/{name}" if name else ""
        sub = f"/{self.subresource}" if self.subresource and name else ""
        return f"{root}{where}/{self.plural}{tail}{sub}"


SESSIONS = Resource(GROUP, VERSION, "hermessessions")
PROFILES = Resource(GROUP, VERSION, "profiles")
CRON_JOBS = Resource(GROUP, VERSION, "hermescronjobs")
NAMESPACES = Resource("", "v1", "namespaces")
PODS = Resource("", "v1", "pods")
SECRETS = Resource("", "v1", "secrets")
CLAIMS = Resource("", "v1", "persistentvolumeclaims")
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies")
EVENTS = Resource("events.k8s.io", "v1", "events")
LEASES = Resource("coordination.k8s.io", "v1", "leases")
