"""The store's methods over the bus: who is heard, where answers go, and what happens when the store is away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from hermes_contracts import store_api, subjects
from hermes_contracts.bus_permissions import Role
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_service import tracing
from hermes_service.rpc import Caller, RpcServer, agent_store_client, service_store_client

ALICE = "s" + "a" * 25
BOB = "s" + "b" * 25


async def _serve(bus: Any, seen: list[Caller]) -> None:
    async def take_commands(caller: Caller, request: BaseModel) -> BaseModel:
        seen.append(caller)
        return store_api.TakeCommandsReply(commands=())

    async def raise_epoch(caller: Caller, request: BaseModel) -> BaseModel:
        raise HermesError(ErrorCode.CONFLICT, "current epoch is 7")

    store = await bus.service(Role.STORE)
    server = RpcServer(store.client, {"take_commands": take_commands, "raise_epoch": raise_epoch})
    await server.start("store")
    await store.client.flush()


async def test_the_store_knows_the_caller_from_the_subject(bus: Any) -> None:
    seen: list[Caller] = []
    await _serve(bus, seen)
    alice = await bus.agent(ALICE, 2)
    reply = await agent_store_client(alice.client, ALICE, 2).call(store_api.TAKE_COMMANDS, store_api.Empty())
    assert reply.commands == ()
    assert seen == [Caller("agent", ALICE, 2)]


async def test_a_reply_subject_outside_the_callers_inbox_gets_no_answer(bus: Any) -> None:
    seen: list[Caller] = []
    await _serve(bus, seen)
    alice, gateway = await bus.agent(ALICE, 2), await bus.service(Role.GATEWAY)
    events = await gateway.client.subscribe(subjects.event(BOB))
    await gateway.client.flush()
    subject = subjects.agent_store(ALICE, 2, "take_commands")
    for reply in (
        subjects.event(BOB),
        f"{subjects.agent_inbox(BOB, 1)}.x",
        f"{subjects.agent_inbox(ALICE, 1)}.x",
        f"{subjects.agent_inbox(ALICE, 2)}",
        "hermes.wake",
    ):
        await alice.client.publish(subject, b"{}", reply=reply)
    own = await alice.client.request(subject, b"{}", timeout=5)
    assert b"commands" in own.data
    assert len(seen) == 1, "only the request with the caller's own inbox was served"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await events.next_msg(timeout=5)


async def test_a_method_of_another_role_is_forbidden(bus: Any) -> None:
    await _serve(bus, [])
    alice = await bus.agent(ALICE, 2)
    client = agent_store_client(alice.client, ALICE, 2)
    route = {"sid": ALICE, "namespace": "dev", "profile": "default", "owner": "me", "key": {"channel": "api"}}
    request = store_api.RaiseEpochRequest.model_validate({"route": route, "expected": 1})
    with pytest.raises(HermesError) as caught:
        await client.call(store_api.RAISE_EPOCH, request)
    assert caught.value.code is ErrorCode.FORBIDDEN


async def test_a_bad_request_names_the_field(bus: Any) -> None:
    await _serve(bus, [])
    operator = await bus.service(Role.OPERATOR)
    answer = await operator.client.request(
        subjects.service_store("operator", "raise_epoch"), b'{"route": {"sid": "x"}, "expected": -1}', timeout=5
    )
    error = store_api.Reply.model_validate_json(answer.data).error
    assert error is not None
    assert error.code is ErrorCode.INVALID
    assert "route.sid" in error.message


async def test_an_error_of_the_store_reaches_the_caller(bus: Any) -> None:
    await _serve(bus, [])
    operator = await bus.service(Role.OPERATOR)
    route = {"sid": ALICE, "namespace": "dev", "profile": "default", "owner": "me", "key": {"channel": "api"}}
    request = store_api.RaiseEpochRequest.model_validate({"route": route, "expected": 1})
    with pytest.raises(HermesError, match="current epoch is 7"):
        await service_store_client(operator.client, "operator").call(store_api.RAISE_EPOCH, request)


async def test_a_call_waits_for_a_store_that_is_away(bus: Any) -> None:
    alice = await bus.agent(ALICE, 2)
    client = agent_store_client(alice.client, ALICE, 2, patience_seconds=20)
    async with asyncio.TaskGroup() as group:
        call = group.create_task(client.call(store_api.TAKE_COMMANDS, store_api.Empty()))
        group.create_task(_serve(bus, []))
    assert call.result().commands == ()


async def test_patience_ends_with_a_plain_error(bus: Any) -> None:
    alice = await bus.agent(ALICE, 2)
    client = agent_store_client(alice.client, ALICE, 2, patience_seconds=0.2)
    with pytest.raises(HermesError) as caught:
        await client.call(store_api.TAKE_COMMANDS, store_api.Empty())
    assert caught.value.code is ErrorCode.UNAVAILABLE


async def test_the_callers_trace_goes_on_in_the_store_and_a_made_up_one_does_not(bus: Any) -> None:
    traces: list[str] = []

    async def take_commands(caller: Caller, request: BaseModel) -> BaseModel:
        traces.append(tracing.current())
        return store_api.TakeCommandsReply(commands=())

    store = await bus.service(Role.STORE)
    await RpcServer(store.client, {"take_commands": take_commands}).start("store")
    await store.client.flush()
    alice = await bus.agent(ALICE, 2)
    client = agent_store_client(alice.client, ALICE, 2)
    with tracing.span("turn", "") as own:
        await client.call(store_api.TAKE_COMMANDS, store_api.Empty())
    await client.call(store_api.TAKE_COMMANDS, store_api.Empty())
    odd = {"traceparent": "00-nonsense"}
    await alice.client.request(subjects.agent_store(ALICE, 2, "take_commands"), b"{}", timeout=5, headers=odd)
    assert traces == [own, "", ""]
