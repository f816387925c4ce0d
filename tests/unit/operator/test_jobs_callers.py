"""Where an agent may have answers sent: to the conversation that it is asked in, and to its owner's home."""

from __future__ import annotations

import pytest

from hermes_contracts.crd.cron_job import DeliverTarget
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.jobs import JobOwner
from hermes_contracts.names import RoutingKey
from hermes_operator.jobs.callers import Client, check_targets

ADA = JobOwner(namespace="team", owner="slack:T1:U1", profiles=("helper",))
THREAD = RoutingKey(channel="slack", account="T1.A1", chat="C1", thread="9.1")
OWN = RoutingKey(channel="slack", account="T1.A1", user="U1")
PROGRAM = RoutingKey(channel="api", chat="session-1")


def place(channel: str, account: str = "T1.A1", chat: str = "C1", thread: str = "") -> DeliverTarget:
    return DeliverTarget(channel=channel, account=account, chat=chat, thread=thread)


HOME = place("home", "slack:T1:U1", "")


@pytest.mark.parametrize(
    ("key", "target", "allowed"),
    [
        (THREAD, place("slack", thread="9.1"), True),
        (THREAD, HOME, True),
        (THREAD, place("home", "slack:T1:U1", "telegram"), True),
        (THREAD, place("slack"), False),
        (THREAD, place("slack", chat="C2", thread="9.1"), False),
        (THREAD, place("slack", account="T2.A1", thread="9.1"), False),
        (THREAD, place("home", "slack:T1:U2", ""), False),
        (THREAD, place("webhook", "alerts"), False),
        (OWN, place("slack", chat="D1"), True),
        (OWN, place("telegram", "12", "77"), True),
        (OWN, place("telegram", "12", ""), False),
        (OWN, place("webhook", "alerts"), False),
        (PROGRAM, HOME, True),
        (PROGRAM, place("slack"), False),
        (None, place("webhook", "alerts"), True),
    ],
)
def test_places_of_an_agent(key: RoutingKey | None, target: DeliverTarget, allowed: bool) -> None:
    try:
        check_targets(Client(ADA, key), (HOME, target))
    except HermesError as error:
        assert (allowed, error.code) == (False, ErrorCode.FORBIDDEN)
        assert "deliver[1]" in error.message
    else:
        assert allowed
