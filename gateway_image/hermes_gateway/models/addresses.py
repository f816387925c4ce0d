"""Keeps provider calls on the public internet: addresses are checked when a connection is made, and that one is used.

A name that resolves to a public address at one moment and to a private one at the next gains nothing by it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from typing import Any

import httpcore2
import httpx2

from hermes_contracts.errors import ErrorCode, HermesError

_REFUSED_V4 = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
        "168.63.129.16/32",  # a cloud's own services, on a public address
    )
)  # fmt: skip
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_REFUSED_V6 = tuple(
    ipaddress.IPv6Network(network)
    for network in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")  # tunnels lead back to IPv4, examples nowhere
)

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


def is_public(address: str) -> bool:
    """Tell whether an IP address is one of the public internet; what cannot be read is not."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv4Address):
        return not any(ip in network for network in _REFUSED_V4)
    return ip in _GLOBAL_V6 and not any(ip in network for network in _REFUSED_V6)


async def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, as the system resolves it. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Connects to public addresses, and to any address of the hosts in `allowed`."""

    def __init__(self, allowed: Iterable[str], resolver: Resolve = resolve) -> None:
        self._allowed = frozenset(host.lower() for host in allowed)
        self._resolve = resolver
        self._inner = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Resolve, check, connect to the first checked address that answers. Raises HermesError FORBIDDEN."""
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._resolve(host, port)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(f"resolving {host} took too long") from error
        except OSError as error:
            raise httpcore2.ConnectError(f"{host} cannot be resolved") from error
        if host.lower() not in self._allowed:
            addresses = [address for address in addresses if is_public(address)]
            if not addresses:
                raise HermesError(
                    ErrorCode.FORBIDDEN,
                    f"the provider's host {host[:253]} has no public address; an administrator can allow it in "
                    "allowedPrivateHosts",
                )
        problem: Exception = httpcore2.ConnectError(f"{host} has no address")
        for address in addresses:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                problem = error
        raise problem

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        """Refuse: no provider lives on a Unix socket."""
        del path, timeout, socket_options
        raise HermesError(ErrorCode.FORBIDDEN, "Unix sockets are not used")

    async def sleep(self, seconds: float) -> None:
        """Wait between two attempts to connect."""
        await asyncio.sleep(seconds)


@cache
def _tls() -> ssl.SSLContext:
    """Return the one TLS context: reading the system's authorities takes a tenth of a second."""
    return httpx2.create_ssl_context(trust_env=False)


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """httpx2's own transport over the guarded backend; a refused connection is tried once more."""

    def __init__(self, backend: httpcore2.AsyncNetworkBackend) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=_tls(),
            max_connections=2000,
            max_keepalive_connections=200,
            keepalive_expiry=60,
            retries=1,
            network_backend=backend,
        )


def guarded_client(
    allowed: Iterable[str], *, connect_seconds: float, idle_seconds: float, resolver: Resolve = resolve
) -> httpx2.AsyncClient:
    """Make the HTTP client that every SDK client shares: no proxies from the environment, no redirects."""
    return httpx2.AsyncClient(
        transport=GuardedTransport(GuardedBackend(allowed, resolver)),
        timeout=httpx2.Timeout(idle_seconds, connect=connect_seconds, pool=connect_seconds),
        follow_redirects=False,
        trust_env=False,
    )
