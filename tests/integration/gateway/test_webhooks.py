"""A monitoring system sends signed webhooks and gets answers at its own address."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
import pytest

from hermes_contracts.envelopes import Outbound
from hermes_gateway.gateway.channels.signatures import problem_with, sign
from tests.integration.gateway.world import WEBHOOK_SECRET, World, until


def signed(
    body: bytes, delivery: str | None = "d-1", *, at: int | None = None, secret: str = WEBHOOK_SECRET
) -> dict[str, str]:
    timestamp = int(time.time()) if at is None else at
    headers = {"Hermes-Timestamp": str(timestamp), "Hermes-Signature": sign(secret, timestamp, body)}
    return headers if delivery is None else {**headers, "Hermes-Delivery-Id": delivery}


async def post(world: World, body: bytes, headers: dict[str, str], route: str = "alerts") -> httpx.Response:
    async with httpx.AsyncClient(base_url=world.webhooks) as http:
        return await http.post(f"/webhooks/{route}", content=body, headers=headers)


async def test_a_signed_message_is_accepted_once_it_is_stored(world: World) -> None:
    body = json.dumps({"text": "disk is full", "thread": "host-1", "sender": "monitor"}).encode()
    first = await post(world, body, signed(body))
    assert first.status_code == 200
    assert await world.pending() == 1
    await until(lambda: len(world.script.inbound) == 1)
    inbound = world.script.inbound[0]
    assert first.json() == {"accepted": True, "session": inbound.sid, "duplicate": False}
    assert (inbound.text, inbound.sender, inbound.account) == ("disk is full", "monitor", "alerts")
    assert world.script.wakes == [inbound.sid]
    again = await post(world, body, signed(body))
    assert again.json() == {"accepted": True, "session": inbound.sid, "duplicate": True}
    other = await post(world, b"plain text", signed(b"plain text", "d-2"))
    assert other.json()["session"] != inbound.sid, "another thread is another session"
    assert await world.pending() == 2


@pytest.mark.parametrize(
    ("route", "body", "headers", "status"),
    [
        ("nowhere", b"x", lambda: signed(b"x"), 404),
        ("alerts", b"x", lambda: signed(b"y"), 401),
        ("alerts", b"x", lambda: signed(b"x", secret="another secret here"), 401),
        ("alerts", b"x", lambda: signed(b"x", at=int(time.time()) - 3600), 401),
        ("alerts", b"x", lambda: signed(b"x", at=int(time.time()) + 3600), 401),
        ("alerts", b"x", lambda: {"Hermes-Delivery-Id": "d"}, 401),
        ("alerts", b"x", lambda: signed(b"x", None), 400),
        ("alerts", b"x", lambda: signed(b"x", "with space"), 400),
        ("alerts", b"  ", lambda: signed(b"  "), 400),
        ("alerts", b"\xff", lambda: signed(b"\xff"), 400),
        ("alerts", b'{"text":"x","thread":5}', lambda: signed(b'{"text":"x","thread":5}'), 400),
        ("alerts", b"x" * (256 * 1024 + 1), lambda: {}, 413),
    ],
)
async def test_refusals(world: World, route: str, body: bytes, headers: Callable[[], dict[str, str]], status: int) -> None:
    # Signed now, not when the tests are collected: a signature is good for five minutes.
    answer = await post(world, body, headers(), route)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["message"]
    assert await world.pending() == 0


async def test_a_refused_publish_is_a_503_and_trying_again_is_safe(world: World) -> None:
    body = b"disk is full"
    await world.nats.kill()
    pending = asyncio.create_task(post_patiently(world, body))
    await until(lambda: not pending.done(), 0.1)
    answer = await pending
    assert answer.status_code == 503
    assert "retry-after" in answer.headers
    await world.nats.start()
    async with asyncio.timeout(20):
        while (await post_patiently(world, body)).status_code != 200:
            await asyncio.sleep(0.1)
    assert await world.pending() == 1


async def post_patiently(world: World, body: bytes) -> httpx.Response:
    async with httpx.AsyncClient(base_url=world.webhooks, timeout=30) as http:
        return await http.post("/webhooks/alerts", content=body, headers=signed(body))


@dataclass
class Receiver:
    """The address that gets answers: answers with the next status of its script, then 200."""

    script: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    requests: list[tuple[dict[str, str], dict[str, object]]] = field(default_factory=list)
    pause: float = 0.0
    """Seconds before an answer: not a wait of the test, but a receiver that is slow."""
    held: asyncio.Event = field(default_factory=asyncio.Event)
    """While it is not set, nobody gets an answer."""
    open: int = 0
    """Requests that have not been answered."""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                lines = [line.split(": ", 1) for line in head.split("\r\n")[1:] if line]
                headers = {name.lower(): value for name, value in lines}
                body = await reader.readexactly(int(headers["content-length"]))
                problem = problem_with(
                    WEBHOOK_SECRET, headers["hermes-timestamp"], headers["hermes-signature"], body,
                    now=time.time(), window_seconds=60,
                )  # fmt: skip
                assert problem is None
                self.requests.append((headers, json.loads(body)))
                self.open += 1
                await self.held.wait()
                await asyncio.sleep(self.pause)
                self.open -= 1
                status, extra = self.script.pop(0) if self.script else (200, {})
                more = "".join(f"{name}: {value}\r\n" for name, value in extra.items())
                writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n{more}\r\n".encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def receiving(port: int, *script: tuple[int, dict[str, str]], pause: float = 0.0) -> AsyncIterator[Receiver]:
    receiver = Receiver(list(script), pause=pause)
    receiver.held.set()
    server = await asyncio.start_server(receiver.handle, "127.0.0.1", port)
    async with server:
        yield receiver


def answer(
    number: int = 1, *, account: str = "alerts", part: int = 1, parts: int = 1, sid: str = "s" + "a" * 25
) -> Outbound:
    return Outbound(
        delivery_id=f"{sid}.t{number}.{part}", sid=sid, turn_id=f"t{number}", part=part, parts=parts, channel="webhook",
        account=account, chat="host-1", thread="", text=f"answer {number} part {part}",
    )  # fmt: skip


async def test_answers_arrive_signed_and_in_order(world: World, reply_port: int) -> None:
    async with receiving(reply_port, (503, {}), (429, {"Retry-After": "1"})) as receiver:
        for number in (1, 2, 3):
            await world.script.deliver(answer(number))
        await until(lambda: len([f for f in world.script.finished if f.outcome == "delivered"]) == 3, 40)
    texts = [body["text"] for _, body in receiver.requests]
    assert texts == ["answer 1 part 1"] * 3 + ["answer 2 part 1", "answer 3 part 1"]
    headers, body = receiver.requests[0]
    assert headers["idempotency-key"] == answer(1).delivery_id == body["delivery_id"]
    assert len(set(world.script.holders)) == 1
    await outbound_empty(world)


async def outbound_empty(world: World) -> None:
    js = world.admin.jetstream()
    async with asyncio.timeout(10):
        while (await js.stream_info("HERMES_OUT")).state.messages:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("status", [400, 302, 404])
async def test_a_clear_no_is_final(world: World, reply_port: int, status: int) -> None:
    async with receiving(reply_port, (status, {"Location": "http://127.0.0.1:1/"})) as receiver:
        await world.script.deliver(answer())
        await until(lambda: [f.outcome for f in world.script.finished] == ["failed"], 20)
        await outbound_empty(world)
    assert len(receiver.requests) == 1
    assert str(status) in world.script.finished[0].error


async def test_attempts_are_limited_and_routes_may_be_silent_or_gone(world: World) -> None:
    # Nobody listens at the reply address of "alerts".
    world.script.deliveries[answer(1).delivery_id] = begun(9)
    for number, account in ((1, "alerts"), (2, "quiet"), (3, "gone")):
        await world.script.deliver(answer(number, account=account))
    await until(lambda: len(world.script.finished) == 3, 30)
    outcomes = {finish.delivery_id: (finish.outcome, finish.error) for finish in world.script.finished}
    assert outcomes[answer(1).delivery_id] == ("failed", "the connection failed: ConnectError; given up after 10 attempts")
    assert outcomes[answer(2).delivery_id][0] == "delivered"
    assert outcomes[answer(3).delivery_id] == ("failed", "the webhook gone is not configured any more")


def begun(attempts: int):  # type: ignore[no-untyped-def]
    from hermes_contracts.store_api import BeginDeliveryReply

    return BeginDeliveryReply(proceed=True, state="attempting", attempts=attempts)


async def test_another_gateway_takes_over(world: World, reply_port: int) -> None:
    async with receiving(reply_port) as receiver:
        await world.script.deliver(answer(1))
        await until(lambda: len(receiver.requests) == 1, 20)
        await world.another_gateway(api_port=0)
        await world.retire_first_gateway()
        await world.script.deliver(answer(2))
        await until(lambda: len(receiver.requests) == 2, 30)
    assert len(set(world.script.holders)) == 2


async def test_replicas_share_the_partitions_as_they_come_and_go(world: World) -> None:
    await world.leases_shared(8, seconds=10)
    await world.another_gateway()
    await world.leases_shared(4, 4, seconds=10)
    await world.another_gateway()
    await world.leases_shared(3, 3, 2, seconds=10)
    await world.retire_first_gateway()
    # Who leaves in good order takes its name away: nobody waits for entries to expire.
    await world.leases_shared(4, 4, seconds=10)


async def test_nothing_is_sent_twice_while_partitions_change_hands(world: World, reply_port: int) -> None:
    async with receiving(reply_port, pause=0.3) as receiver:
        sent = [answer(number, sid=f"s{letter * 25}") for number in range(1, 4) for letter in "abcdefghij"]
        for outbound in sent:
            await world.script.deliver(outbound)
        await until(lambda: receiver.open > 0, 20)
        await world.another_gateway()
        await until(lambda: len(world.script.finished) == len(sent), 40)
        await world.leases_shared(4, 4, seconds=10)
    delivered = [body["delivery_id"] for _, body in receiver.requests]
    assert sorted(delivered) == sorted(outbound.delivery_id for outbound in sent)
    for letter in "abcdefghij":
        texts = [body["text"] for _, body in receiver.requests if body["session"] == f"s{letter * 25}"]
        assert texts == sorted(texts), "the answers of a session keep their order"
    assert {finish.outcome for finish in world.script.finished} == {"delivered"}


async def test_a_killed_holder_is_taken_over_and_what_it_had_in_hand_comes_again_marked(
    world: World, reply_port: int
) -> None:
    async with receiving(reply_port) as receiver:
        doomed = await world.gateway_process()
        await world.leases_shared(4, 4, seconds=15)
        # Every session's answer hangs at the receiver, so that the killed process dies in the middle of some.
        receiver.held.clear()
        sent = [answer(1, sid=f"s{letter * 25}") for letter in "abcdefghijkl"]
        for outbound in sent:
            await world.script.deliver(outbound)
        await until(lambda: receiver.open == len(sent), 20)
        await doomed.kill()
        killed = time.monotonic()
        receiver.held.set()
        lost = {outbound.delivery_id for outbound in sent}
        await until(lambda: lost == {finish.delivery_id for finish in world.script.finished}, 30)
        assert time.monotonic() - killed < 25, "within the life of a lease"
        await world.leases_shared(8, seconds=25)
    again = [headers for headers, _ in receiver.requests if headers["hermes-delivery-attempt"] == "2"]
    assert again, "the killed process had something in hand"
    assert all(headers.get("hermes-delivery-uncertain") == "true" for headers in again)
    first = [headers for headers, _ in receiver.requests if headers["hermes-delivery-attempt"] == "1"]
    assert not any("hermes-delivery-uncertain" in headers for headers in first)
    for headers in again:
        assert headers["idempotency-key"] in {other["idempotency-key"] for other in first}, "the receiver can tell"


async def test_a_trace_goes_on_to_the_receiver(world: World, reply_port: int) -> None:
    trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    async with receiving(reply_port) as receiver:
        await world.script.deliver(answer(1).model_copy(update={"traceparent": trace}))
        await until(lambda: len(receiver.requests) == 1, 20)
    assert receiver.requests[0][0]["traceparent"].startswith("00-" + "a" * 32 + "-")
