"""Where the answer to a webhook goes: where its route says, each place once, and otherwise back."""

from __future__ import annotations

from hermes_contracts.envelopes import Target
from hermes_contracts.names import RoutingKey
from hermes_gateway.store.outbox import TurnFacts
from hermes_gateway.store.places import KnownTurn, places

FACTS = TurnFacts("s" + "a" * 25, "t1", "c1", "pulls", "u1")
KEY = RoutingKey(channel="webhook", account="pulls", chat="pr-7")
OPS = Target(channel="slack", account="T1.A1", chat="C1")


def test_a_route_that_names_nobody_is_answered_itself() -> None:
    assert places(KnownTurn(FACTS, "webhook", KEY, "team")) == [Target(channel="webhook", account="pulls", chat="pr-7")]


def test_the_places_of_a_route_take_that_place() -> None:
    assert places(KnownTurn(FACTS, "webhook", KEY, "team", deliver=(OPS, OPS))) == [OPS]
