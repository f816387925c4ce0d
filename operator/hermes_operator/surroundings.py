"""Facts about the installation that are looked up rather than set: addresses of services, resolvers."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import structlog

from hermes_contracts.installation import PORT_BUS, PORT_MODELS
from hermes_operator.build.facts import HostAddress, Installation
from hermes_operator.build.pod import host_and_port
from hermes_operator.settings import OperatorSettings

log = structlog.get_logger()

REFRESH_SECONDS = 30.0


class Surroundings:
    """Holds the facts of the installation; `refresh` looks the changing ones up again."""

    def __init__(
        self, settings: OperatorSettings, gateway_public_key: str, resolv_conf: Path = Path("/etc/resolv.conf")
    ) -> None:
        self._settings = settings
        self._gateway_public_key = gateway_public_key
        self._resolv_conf = resolv_conf
        self._known: Installation | None = None

    def installation(self) -> Installation:
        """Return what was looked up last."""
        assert self._known is not None, "refresh() runs before anything else does"
        return self._known

    async def refresh(self) -> None:
        """Look everything up. Raises OSError when a service has no address yet."""
        settings = self._settings
        self._known = Installation(
            namespace=settings.namespace,
            agent_image=settings.agent_image,
            sandbox_image=settings.sandbox_image,
            image_pull_policy=settings.image_pull_policy,
            image_pull_secrets=settings.image_pull_secrets,
            bus=await _address(settings.bus_url, PORT_BUS, settings.bus_selector, settings.bus_namespace),
            models=await _address(settings.models_url, PORT_MODELS, settings.models_selector),
            bus_url=settings.bus_url,
            models_url=settings.models_url,
            gateway_public_key=self._gateway_public_key,
            resolvers=await asyncio.to_thread(_resolvers, self._resolv_conf),
            blocked_cidrs=settings.blocked_cidrs,
        )

    async def wait(self) -> None:
        """Look up until every service has an address: the chart makes them at the same time as us."""
        while True:
            try:
                await self.refresh()
            except OSError as error:
                log.info("surroundings.waiting", error=str(error)[:200])
                await asyncio.sleep(1.0)
            else:
                return

    async def keep_fresh(self) -> None:
        """Look up again and again; a look-up that fails leaves what is known."""
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            try:
                await self.refresh()
            except OSError as error:
                log.warning("surroundings.stale", error=str(error)[:200])


async def _address(url: str, default_port: int, selector: dict[str, str], namespace: str = "") -> HostAddress:
    host, port = host_and_port(url, default_port)
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = tuple(sorted({str(entry[4][0]) for entry in found}))
    return HostAddress(host, addresses, port, tuple(sorted(selector.items())), namespace)


def _resolvers(path: Path) -> tuple[str, ...]:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return ()
    words = [line.split() for line in lines]
    found = {parts[1].partition("%")[0] for parts in words if len(parts) > 1 and parts[0] == "nameserver"}
    return tuple(sorted(found))
