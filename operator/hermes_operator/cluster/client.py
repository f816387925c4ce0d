"""The one door to the API server: raw JSON over the official asyncio client's transport.

The client's typed models are left out: they cost memory and time, and the manifests here are our own.
A call that the table of permissions does not hold is refused before it is sent, so the chart's roles cannot be too small.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import config
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject

from hermes_contracts.names import FIELD_MANAGER
from hermes_operator import metrics
from hermes_operator.cluster.errors import ClusterError
from hermes_operator.cluster.permissions import Scope, allowed
from hermes_operator.cluster.resources import Resource

Manifest = dict[str, Any]

_PAGE = 200
_CONNECTIONS = 64
_WATCHES_A_TENANT = 4
_FAST_SECONDS = 1.0
_TIMEOUT_SECONDS = 20
_METHODS = {"get": "GET", "list": "GET", "patch": "PATCH", "create": "POST", "update": "PUT", "delete": "DELETE"}
_JSON = "application/json"
_APPLY_PATCH = "application/apply-patch+yaml"
_MERGE_PATCH = "application/merge-patch+json"
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@dataclass(frozen=True)
class Reach:
    """Namespaces and what they are to us."""

    release: str
    tenants: frozenset[str]

    def scopes(self, namespace: str) -> frozenset[Scope]:
        """Return whose rights hold in a namespace; an empty name is the cluster."""
        found = set()
        if namespace in self.tenants:
            found.add(Scope.TENANT)
        if namespace == self.release:
            found.add(Scope.RELEASE)
        return frozenset(found)


class ClusterClient:
    """Get, list, apply, create, replace, delete."""

    def __init__(self, configuration: Configuration, rest: RESTClientObject, reach: Reach) -> None:
        self._configuration = configuration
        self._rest = rest
        self._reach = reach
        self.clock_skew: float | None = None
        """Seconds that our clock was ahead of the API server's at the last call, to within one; None: not measured."""

    @property
    def configuration(self) -> Configuration:
        """Where and how the API server is reached."""
        return self._configuration

    @classmethod
    @asynccontextmanager
    async def open(cls, kubeconfig: Path | None, reach: Reach) -> AsyncIterator[ClusterClient]:
        """Connect with the pod's service account, or with a kubeconfig when one is named."""
        configuration = Configuration()
        if kubeconfig is None:
            config.load_incluster_config(  # type: ignore[no-untyped-call]
                client_configuration=configuration
            )
        else:
            await config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(kubeconfig), client_configuration=configuration
            )
        configuration.retries = 0
        # A watch holds its connection for ever, so calls need their own beside those.
        configuration.connection_pool_maxsize = _CONNECTIONS + _WATCHES_A_TENANT * len(reach.tenants)
        rest = RESTClientObject(configuration)
        try:
            yield cls(configuration, rest, reach)
        finally:
            await rest.close()

    async def get(self, resource: Resource, namespace: str, name: str) -> Manifest | None:
        """Return an object, or None when it is not there."""
        try:
            return await self._call("get", resource, namespace, name)
        except ClusterError as error:
            if error.status == 404:
                return None
            raise

    async def get_metadata(self, resource: Resource, namespace: str, name: str) -> Manifest | None:
        """Return an object's metadata and nothing of what it holds, or None when it is not there."""
        try:
            return await self._call("get", resource, namespace, name, accept=_METADATA_ONLY)
        except ClusterError as error:
            if error.status == 404:
                return None
            raise

    async def pages(self, resource: Resource, namespace: str, *, labels: str = "") -> AsyncIterator[Manifest]:
        """Yield a namespace's objects page by page: `items`, and `metadata.resourceVersion` of the whole list."""
        token = ""
        while True:
            query = {"limit": str(_PAGE), "labelSelector": labels, "continue": token}
            page = await self._call("list", resource, namespace, query=query)
            yield page
            token = page.get("metadata", {}).get("continue", "")
            if not token:
                return

    async def list(self, resource: Resource, namespace: str, *, labels: str = "") -> list[Manifest]:
        """Return all objects of a namespace."""
        return [item async for page in self.pages(resource, namespace, labels=labels) for item in page.get("items") or []]

    async def apply(self, resource: Resource, manifest: Manifest, *, manager: str = FIELD_MANAGER) -> Manifest:
        """Server-side apply under our field manager; owned fields are taken back from whoever changed them.

        Another `manager` owns what it applies apart from the rest: leaving a field out takes back its own only.
        """
        meta = manifest["metadata"]
        self._check("patch", resource, meta.get("namespace", ""))
        if not resource.subresource:
            self._check("create", resource, meta.get("namespace", ""))
        query = {"fieldManager": manager, "force": "true"}
        return await self._call("patch", resource, meta.get("namespace", ""), meta["name"], query, manifest)

    async def merge(self, resource: Resource, manifest: Manifest) -> Manifest:
        """Merge fields into an object at the resourceVersion it names. Raises ClusterError 409 when somebody was faster."""
        meta = manifest["metadata"]
        query = {"fieldManager": FIELD_MANAGER}
        return await self._call(
            "patch", resource, meta.get("namespace", ""), meta["name"], query, manifest, content_type=_MERGE_PATCH
        )

    async def create(self, resource: Resource, manifest: Manifest) -> Manifest:
        """Create an object. Raises ClusterError with status 409 when its name is taken."""
        query = {"fieldManager": FIELD_MANAGER}
        namespace = manifest["metadata"].get("namespace", "")
        return await self._call("create", resource, namespace, query=query, body=manifest)

    async def replace(self, resource: Resource, manifest: Manifest) -> Manifest:
        """Update an object at the resourceVersion it names. Raises ClusterError 409 when somebody was faster."""
        meta = manifest["metadata"]
        query = {"fieldManager": FIELD_MANAGER}
        return await self._call("update", resource, meta.get("namespace", ""), meta["name"], query, manifest)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        version: str = "",
        grace_seconds: int | None = None,
    ) -> bool:
        """Delete an object, only if it still has that UID and resourceVersion when they are given.

        False: it was not there, or has changed.
        """
        body: Manifest = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        wanted = {"uid": uid, "resourceVersion": version}
        if uid or version:
            body["preconditions"] = {name: value for name, value in wanted.items() if value}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        try:
            await self._call("delete", resource, namespace, name, body=body)
        except ClusterError as error:
            if error.status in (404, 409):
                return False
            raise
        return True

    def _check(self, verb: str, resource: Resource, namespace: str) -> None:
        if not allowed(verb, resource.group, resource.plural_path, self._reach.scopes(namespace)):
            where = namespace or "the cluster"
            raise ClusterError(
                403, "NotInTable", f"{verb} {resource.plural_path} in {where} is not in cluster/permissions.py"
            )

    async def _call(  # noqa: PLR0913 - what an HTTP request is made of, named
        self,
        verb: str,
        resource: Resource,
        namespace: str,
        name: str = "",
        query: dict[str, str] | None = None,
        body: Manifest | None = None,
        accept: str = _JSON,
        content_type: str = _APPLY_PATCH,
    ) -> Manifest:
        self._check(verb, resource, namespace)
        url = self._configuration.host + resource.path(namespace, name)
        found = urlencode({key: value for key, value in (query or {}).items() if value})
        headers = await self._headers(accept)
        if verb == "patch":
            headers["Content-Type"] = content_type
        status, began = 0, time.time()
        try:
            response = await self._rest.request(  # type: ignore[no-untyped-call]
                _METHODS[verb],
                f"{url}?{found}" if found else url,
                headers=headers,
                body=body,
                _request_timeout=_TIMEOUT_SECONDS,
            )
            status, data = response.status, await response.read()
            self._note_time(response.response.headers.get("Date", ""), began, time.time())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ClusterError(0, "Unreachable", f"the API server does not answer: {type(error).__name__}") from error
        finally:
            metrics.API_CALLS.labels(verb, resource.plural_path, str(status)).inc()
        if 200 <= status < 300:
            document: Manifest = json.loads(data)
            return document
        raise _refusal(status, data)

    def _note_time(self, date: str, began: float, ended: float) -> None:
        """Compare our clock with the server's, which tells whole seconds; a slow call says too little."""
        with contextlib.suppress(ValueError):
            if ended - began < _FAST_SECONDS:
                self.clock_skew = (began + ended) / 2 - (parsedate_to_datetime(date).timestamp() + 0.5)

    async def _headers(self, accept: str) -> dict[str, str]:
        headers = {"Accept": accept}
        token = await self._configuration.get_api_key_with_prefix("BearerToken")
        return headers | ({"Authorization": token} if token else {})


def _refusal(status: int, data: bytes) -> ClusterError:
    try:
        document = json.loads(data)
        return ClusterError(status, str(document.get("reason", "")), str(document.get("message", ""))[:1000])
    except ValueError:
        return ClusterError(status, "", f"the API server answered {status}")
