"""Which addresses a provider may have, and that the checked one is the one connected to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpcore2
import httpx2
import pytest

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_gateway.models.addresses import GuardedBackend, guarded_client, is_public


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.1.2.3", "100.64.0.1", "100.100.100.200", "169.254.169.254",
        "172.31.255.255", "192.168.0.1", "192.0.0.192", "198.18.0.1", "224.0.0.1", "255.255.255.255", "168.63.129.16",
        "::", "::1", "::ffff:10.0.0.1", "::ffff:8.8.8.8", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "fe80::1",
        "fe80::1%eth0", "fd00:ec2::254", "fc00::1", "ff02::1", "2001:db8::1", "2002:7f00:1::", "2001:0:1::", "garbage", "",
    ],
)  # fmt: skip
def test_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700::1111", "2a00:1450:4001::200e"])
def test_public(address: str) -> None:
    assert is_public(address)


async def test_a_name_with_a_private_address_is_refused() -> None:
    async def resolver(host: str, port: int) -> Sequence[str]:
        return ["10.0.0.7", "fd00::1"]

    backend = GuardedBackend([], resolver)
    with pytest.raises(HermesError) as caught:
        await backend.connect_tcp("innocent.example", 443, timeout=1)
    assert caught.value.code is ErrorCode.FORBIDDEN and "innocent.example" in caught.value.message


async def test_a_name_that_changes_its_address_gains_nothing() -> None:
    """Resolved once a connection; a private answer to a later look-up is never used, a public one is not looked up again."""
    answers = [["8.8.8.8"], ["127.0.0.1"]]
    asked: list[str] = []

    async def resolver(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return answers[len(asked) - 1]

    connected: list[str] = []

    class Inner(httpcore2.AsyncNetworkBackend):
        async def connect_tcp(self, host: str, *rest: object, **named: object) -> httpcore2.AsyncNetworkStream:
            connected.append(host)
            raise httpcore2.ConnectError("nobody there")

    backend = GuardedBackend([], resolver)
    backend._inner = Inner()  # type: ignore[assignment]
    with pytest.raises(httpcore2.ConnectError):
        await backend.connect_tcp("rebinding.example", 443)
    with pytest.raises(HermesError):
        await backend.connect_tcp("rebinding.example", 443)
    assert connected == ["8.8.8.8"]


async def test_allowed_hosts_may_be_private_and_the_whole_client_uses_the_guard() -> None:
    async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()

    async def resolver(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    async with await asyncio.start_server(hello, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with guarded_client(["LLM.internal"], connect_seconds=2, idle_seconds=2, resolver=resolver) as client:
            assert (await client.get(f"http://llm.internal:{port}/")).text == "ok"
            with pytest.raises(HermesError):
                await client.get(f"http://other.internal:{port}/")


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    async with guarded_client([], connect_seconds=2, idle_seconds=2) as client:
        with pytest.raises(HermesError):
            await client.get("https://127.0.0.1:2/")


async def test_names_that_do_not_resolve_and_slow_resolvers() -> None:
    async def unknown(host: str, port: int) -> Sequence[str]:
        raise OSError("no such host")

    async def slow(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(httpcore2.ConnectError):
        await GuardedBackend([], unknown).connect_tcp("nowhere.example", 443)
    async with guarded_client([], connect_seconds=0.05, idle_seconds=1, resolver=slow) as client:
        with pytest.raises(httpx2.ConnectTimeout):
            await client.get("https://slow.example/")
