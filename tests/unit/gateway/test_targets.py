"""Answers with several targets: each has its own lane, and an account of another namespace refuses them."""

from __future__ import annotations

import asyncio

import pytest

from hermes_contracts.access import WebhookRoute
from hermes_contracts.envelopes import Outbound
from hermes_gateway.gateway.delivery.deliver import Attempt, _lane
from hermes_gateway.gateway.delivery.sender import WebhookSender

SID = "s" + "a" * 25


def outbound(**changes: object) -> Outbound:
    facts: dict[str, object] = {
        "delivery_id": f"{SID}.t.1", "sid": SID, "turn_id": "t", "part": 1, "parts": 1, "channel": "webhook",
        "account": "alerts", "chat": "nightly", "thread": "", "text": "hello",
    }  # fmt: skip
    return Outbound.model_validate({**facts, **changes})


def test_parts_wait_for_those_of_their_own_target_only() -> None:
    assert _lane(outbound()) == _lane(outbound(part=2))
    assert _lane(outbound()) != _lane(outbound(target=1))


@pytest.mark.parametrize(("namespace", "outcome"), [("team", "delivered"), ("", "delivered"), ("rivals", "failed")])
def test_a_route_serves_its_own_namespace(namespace: str, outcome: str) -> None:
    route = WebhookRoute(name="alerts", namespace="team", profile="demo", secret="x" * 16)

    async def send() -> str:
        sender = WebhookSender(lambda: {"alerts": route}, timeout_seconds=1)
        try:
            return (await sender.send(outbound(namespace=namespace), Attempt(1))).outcome
        finally:
            await sender.close()

    assert asyncio.run(send()) == outcome
