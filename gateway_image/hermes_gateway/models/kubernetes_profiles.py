"""Profiles by watch and provider Secrets by need, from Kubernetes. The only door of this process to the API server."""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import aiohttp
import structlog
from kubernetes.aio import client, config, watch
from kubernetes.aio.client.exceptions import ApiException
from pydantic import ValidationError

from hermes_contracts.crd.profile import ProfileSpec
from hermes_contracts.crd.registry import PROFILE
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import GROUP, VERSION
from hermes_gateway.models.provider_secret import ProviderSecret, missing_secret, read_secret

log = structlog.get_logger()

_WATCH_SECONDS = 300
_REQUEST_SECONDS = 5.0
_MAX_CACHED_SECRETS = 1000


def connect_in_cluster() -> client.ApiClient:
    """Return a client with the pod's own service account."""
    config.load_incluster_config()  # type: ignore[no-untyped-call]
    return client.ApiClient()


class KubernetesProfiles:
    """A ProfileSource over the API server; `run` keeps it up to date."""

    def __init__(
        self,
        tenants: Sequence[str],
        *,
        secret_cache_seconds: float,
        connect: Callable[[], client.ApiClient] = connect_in_cluster,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._tenants = tuple(tenants)
        self._secret_cache_seconds = secret_cache_seconds
        self._clock = clock
        self._profiles: dict[str, dict[str, ProfileSpec]] = {}
        self._secrets: dict[tuple[str, str], tuple[float, ProviderSecret]] = {}
        self._api: client.ApiClient | None = None

    def problem(self) -> str | None:
        """Return which namespaces' Profiles are not known yet."""
        missing = [tenant for tenant in self._tenants if tenant not in self._profiles]
        return f"Profiles not read yet in: {', '.join(missing)}" if missing else None

    async def run(self) -> None:
        """Watch the tenants' Profiles until cancelled."""
        async with self._connect() as api, asyncio.TaskGroup() as group:
            self._api = api
            for tenant in self._tenants:
                group.create_task(self._follow(api, tenant))

    async def profile(self, namespace: str, name: str) -> ProfileSpec | None:
        """Return a Profile: from the watch, or by one read when it is too new for that."""
        known = self._profiles.get(namespace, {}).get(name)
        if known is not None or self._api is None:
            if self._api is None:
                raise _unavailable("Profiles are not read yet")
            return known
        found = await self._get(
            client.CustomObjectsApi(self._api).get_namespaced_custom_object(
                GROUP, VERSION, namespace, PROFILE.plural, name, _request_timeout=_REQUEST_SECONDS
            )
        )
        return None if found is None else _spec(found)

    async def secret(self, namespace: str, name: str) -> ProviderSecret:
        """Return a Secret, at most `secret_cache_seconds` old."""
        if self._api is None:
            raise _unavailable("the cluster is not connected yet")
        cached = self._secrets.get((namespace, name))
        now = self._clock()
        if cached is not None and now < cached[0]:
            return cached[1]
        self._secrets.pop((namespace, name), None)
        found = await self._get(
            client.CoreV1Api(self._api).read_namespaced_secret(name, namespace, _request_timeout=_REQUEST_SECONDS)
        )
        if found is None:
            raise missing_secret(namespace, name)
        secret = read_secret(name, found.type, _decoded(found.data or {}))
        if len(self._secrets) >= _MAX_CACHED_SECRETS:
            self._secrets.clear()
        self._secrets[namespace, name] = (now + self._secret_cache_seconds, secret)
        return secret

    async def _get(self, request: Any) -> Any:
        try:
            return await request
        except ApiException as error:
            if error.status == 404:
                return None
            raise _unavailable(f"the API server answered {error.status}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unavailable("the API server does not answer") from error

    async def _follow(self, api: client.ApiClient, namespace: str) -> None:
        """List, then watch; after any failure list again. What was known stays known meanwhile."""
        pause = 0.5
        while True:
            try:
                version = await self._list(api, namespace)
                pause = 0.5
                await self._watch(api, namespace, version)
            except (ApiException, aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                log.warning("models.profiles.watch_failed", namespace=namespace, error=type(error).__name__)
                await asyncio.sleep(pause)
                pause = min(pause * 2, 30.0)

    async def _list(self, api: client.ApiClient, namespace: str) -> str:
        found: Any = await client.CustomObjectsApi(api).list_namespaced_custom_object(
            GROUP, VERSION, namespace, PROFILE.plural, _request_timeout=30
        )
        specs = ((item["metadata"]["name"], _spec(item)) for item in found["items"])
        self._profiles[namespace] = {name: spec for name, spec in specs if spec is not None}
        return str(found["metadata"]["resourceVersion"])

    async def _watch(self, api: client.ApiClient, namespace: str, version: str) -> None:
        async with watch.Watch() as watcher:  # type: ignore[no-untyped-call]
            stream = watcher.stream(
                client.CustomObjectsApi(api).list_namespaced_custom_object,
                GROUP, VERSION, namespace, PROFILE.plural,
                resource_version=version, timeout_seconds=_WATCH_SECONDS, _request_timeout=_WATCH_SECONDS + 30,
            )  # fmt: skip
            async for event in stream:
                self._take(namespace, event["type"], event["raw_object"])

    def _take(self, namespace: str, kind: str, item: Mapping[str, Any]) -> None:
        name = item["metadata"]["name"]
        spec = _spec(item)
        if kind in ("ADDED", "MODIFIED") and spec is not None:
            self._profiles[namespace][name] = spec
        elif kind != "BOOKMARK":
            self._profiles[namespace].pop(name, None)


def _spec(item: Mapping[str, Any]) -> ProfileSpec | None:
    try:
        return ProfileSpec.model_validate(item.get("spec"))
    except ValidationError:
        log.warning("models.profiles.unreadable", namespace=item["metadata"].get("namespace"), name=item["metadata"]["name"])
        return None


def _decoded(data: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for key, value in data.items():
        try:
            found[key] = base64.b64decode(value).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue
    return found


def _unavailable(message: str) -> HermesError:
    return HermesError(ErrorCode.UNAVAILABLE, message, retryable=True, retry_after_seconds=2)
