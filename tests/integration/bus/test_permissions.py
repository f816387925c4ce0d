"""Who may say what on the bus: every role tries every class of subject against the real server.

The expected table is written by hand, not derived from the permissions, so that a slip there shows here.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from typing import Any

import pytest

from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Role, service_permissions, warm_permissions
from hermes_service.bus import BusCredentials
from hermes_service.bus_keys import BusKeys
from release.kubectl import run

_marks = itertools.count()

ALICE = "s" + "a" * 25
BOB = "s" + "b" * 25
STREAM_A, STREAM_B = subjects.in_stream(ALICE), subjects.in_stream(BOB)

ROLES = ("operator", "gateway", "store", "models", "alice", "zombie", "bob", "warm")
"""`alice` is the agent of session ALICE at epoch 2, `zombie` the same session's at epoch 1, `bob` another session's,
`warm` a pod that waits for one."""
WARM, COLD = "0f6b1c7e-1111-4222-8333-abcdefabcdef", "1f6b1c7e-1111-4222-8333-abcdefabcdef"

PUBLISH: dict[str, set[str]] = {
    subjects.inbound(ALICE): {"operator", "gateway"},
    subjects.WAKE: {"gateway"},
    subjects.control(ALICE): {"operator", "gateway", "store"},
    subjects.control_epoch(ALICE, 2): {"operator"},
    subjects.warm_hello(WARM): {"warm"},
    subjects.warm_hello(COLD): set(),
    subjects.warm_claim(WARM): {"operator"},
    subjects.delta(ALICE, 2): {"alice"},
    subjects.delta(ALICE, 1): {"zombie"},
    subjects.event(ALICE): {"store"},
    subjects.outbound("webhook", ALICE): {"store"},
    subjects.dead(ALICE): {"store"},
    subjects.agent_store(ALICE, 2, "commit"): {"alice"},
    subjects.agent_store(ALICE, 1, "commit"): {"zombie"},
    subjects.agent_store(ALICE, 3, "commit"): set(),
    subjects.agent_store(ALICE, 2, "commit") + ".more": set(),
    subjects.agent_store(BOB, 1, "load"): {"bob"},
    subjects.jobs("gateway", "create"): {"gateway"},
    subjects.jobs("store", "create"): set(),
    subjects.agent_jobs(ALICE, 2, "create"): {"alice"},
    subjects.agent_jobs(ALICE, 1, "create"): {"zombie"},
    subjects.agent_jobs(ALICE, 3, "create"): set(),
    subjects.agent_jobs(BOB, 1, "create"): {"bob"},
    subjects.service_store("operator", "raise_epoch"): {"operator"},
    subjects.service_store("gateway", "get_session"): {"gateway"},
    subjects.service_store("models", "record_usage"): {"models"},
    f"$JS.API.CONSUMER.MSG.NEXT.{STREAM_A}.{subjects.consumer(ALICE, 2)}": {"operator", "alice"},
    f"$JS.API.CONSUMER.MSG.NEXT.{STREAM_A}.{subjects.consumer(ALICE, 1)}": {"operator", "zombie"},
    f"$JS.ACK.{STREAM_A}.{subjects.consumer(ALICE, 2)}.1.1.1.1.1": {"alice"},
    f"$JS.ACK.{STREAM_B}.{subjects.consumer(BOB, 1)}.1.1.1.1.1": {"bob"},
    f"$JS.API.STREAM.INFO.{STREAM_A}": {"operator", "gateway"},
    f"$JS.API.STREAM.MSG.GET.{STREAM_A}": {"operator"},
    f"$JS.API.STREAM.DELETE.{STREAM_A}": {"operator"},
    f"$JS.API.STREAM.PURGE.{STREAM_A}": {"operator"},
    f"$JS.API.CONSUMER.CREATE.{STREAM_A}": {"operator"},
    f"$JS.API.CONSUMER.DELETE.{STREAM_A}.x": {"operator"},
    f"$JS.API.STREAM.MSG.GET.{subjects.EVENTS_STREAM}": {"operator"},
    "$JS.API.STREAM.LIST": {"operator"},
    f"$KV.{subjects.PROFILES_BUCKET}.dev.default": {"operator"},
    f"$KV.{subjects.LEASES_BUCKET}.out-1": {"gateway"},
    f"$KV.{subjects.CONVERSATIONS_BUCKET}.x": {"gateway"},
    f"$KV.{subjects.PREVIEWS_BUCKET}.x": {"gateway"},
    subjects.preview(3): {"gateway"},
    subjects.piece(ALICE, "x"): {"store"},
    f"$JS.API.STREAM.CREATE.{subjects.PIECES_STREAM}": {"operator", "store"},
    f"$JS.API.STREAM.PURGE.{subjects.PIECES_STREAM}": {"operator", "store"},
    f"$JS.API.STREAM.DELETE.{subjects.PIECES_STREAM}": {"operator"},
    f"$JS.API.DIRECT.GET.{subjects.PIECES_STREAM}.{subjects.piece(ALICE, 'x')}": {"operator", "store"},
    f"$JS.API.STREAM.MSG.GET.{subjects.PIECES_STREAM}": {"operator"},
    f"{subjects.agent_inbox(BOB, 1)}.x": {"store"},
    f"{subjects.agent_inbox(BOB, 1)}.request.x": {"store", "operator"},
    f"{subjects.service_inbox('gateway')}.x": {"store", "operator"},
    f"{subjects.service_inbox('models')}.x": {"store"},
    f"{subjects.service_inbox('models')}.request.x": {"store"},
    "$SYS.REQ.SERVER.PING": set(),
    "anything.else": set(),
}

SUBSCRIBE: dict[str, set[str]] = {
    ">": set(),
    "hermes.>": set(),
    "hermes.in.*.*": set(),
    subjects.inbound(ALICE): set(),
    subjects.WAKE: {"operator"},
    subjects.control(ALICE): {"alice", "zombie"},
    subjects.control_epoch(ALICE, 2): {"alice"},
    subjects.control_epoch(ALICE, 1): {"zombie"},
    subjects.warm_hello("*"): {"operator"},
    subjects.warm_claim(WARM): {"warm"},
    subjects.warm_claim(COLD): set(),
    subjects.warm_claim("*"): set(),
    f"{subjects.warm_inbox(WARM)}.>": set(),
    subjects.deltas_of(ALICE): {"gateway"},
    subjects.event(ALICE): {"gateway"},
    subjects.preview(3): {"gateway"},
    subjects.piece(ALICE, "x"): set(),
    "hermes.store.*.*.*": {"store"},
    "hermes.store.*.*.report": {"store", "operator"},
    "hermes.svc.*.*": {"store"},
    subjects.jobs("gateway", "*"): {"operator"},
    subjects.agent_jobs("*", "*", "*"): {"operator"},
    subjects.agent_jobs(ALICE, 2, "*"): {"operator"},
    f"{subjects.agent_inbox(ALICE, 2)}.>": {"alice"},
    f"{subjects.agent_inbox(ALICE, 1)}.>": {"zombie"},
    f"{subjects.service_inbox('store')}.>": {"store"},
    "_INBOX.>": set(),
    "$JS.ACK.>": set(),
    "$JS.EVENT.ADVISORY.>": set(),
    "$SYS.>": set(),
}


async def _connect(bus: Any, role: str) -> Any:
    if role in {member.value for member in Role}:
        return await bus.service(Role(role))
    if role == "warm":
        return await bus.user(role, warm_permissions(WARM))
    return await bus.agent(*{"alice": (ALICE, 2), "zombie": (ALICE, 1), "bob": (BOB, 1)}[role])


async def _denied(user: Any, subject: str) -> bool:
    """Whether the server refused what was just sent: a message that it surely refuses marks the end of what to look at."""
    mark = f"nobody.may.{next(_marks)}"
    await user.client.publish(mark, b"")
    async with asyncio.timeout(10):
        while not any(mark in error for error in user.errors):
            await asyncio.sleep(0)
    return any(f'"{subject}"'.lower() in error.lower() for error in user.errors)


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_publishes_only_what_its_job_needs(bus: Any, role: str) -> None:
    user = await _connect(bus, role)
    wrong = []
    for subject, allowed in PUBLISH.items():
        # The reply subject keeps JetStream's API from doing anything: an empty body is an invalid request.
        await user.client.publish(subject, b"", reply=f"{user.inbox}.x")
        if await _denied(user, subject) is (role in allowed):
            wrong.append((subject, "denied" if role in allowed else "allowed"))
    assert not wrong


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_receives_only_what_its_job_needs(bus: Any, role: str) -> None:
    user = await _connect(bus, role)
    wrong = []
    for subject, allowed in SUBSCRIBE.items():
        subscription = await user.client.subscribe(subject)
        if await _denied(user, subject) is (role in allowed):
            wrong.append((subject, "denied" if role in allowed else "allowed"))
        else:
            await subscription.unsubscribe() if role in allowed else None
    assert not wrong


_TRY = """
import asyncio, base64, sys
import nats, nkeys
url, jwt, seed = sys.argv[1:]
def sign(nonce): return base64.b64encode(nkeys.from_seed(seed.encode()).sign(nonce.encode()))
user = {"user_jwt_cb": lambda: bytearray(jwt.encode()), "signature_cb": sign} if jwt else {}
try:
    asyncio.run(nats.connect(url, allow_reconnect=False, **user))
    print("connected")
except Exception as error:
    print("refused", error)
"""


async def _try_to_connect(url: str, credentials: BusCredentials | None = None) -> str:
    """Try in a process of its own: the client library leaves the socket of a refused connection to the garbage collector."""
    jwt, seed = (credentials.jwt, credentials.seed) if credentials else ("", "")
    return await run(sys.executable, "-c", _TRY, url, jwt, seed)


async def test_without_a_credential_there_is_no_connection(bus: Any) -> None:
    assert (await _try_to_connect(bus.url)).startswith("refused")


async def test_a_credential_of_another_installation_is_refused(bus: Any) -> None:
    foreign = BusKeys.generate().user("gateway", service_permissions(Role.GATEWAY))
    assert (await _try_to_connect(bus.url, foreign)).startswith("refused")


async def test_an_expired_credential_is_refused(bus: Any) -> None:
    old = bus.keys.user("gateway", service_permissions(Role.GATEWAY), lifetime_seconds=-10)
    assert (await _try_to_connect(bus.url, old)).startswith("refused")


async def test_a_credential_that_is_good_connects(bus: Any) -> None:
    good = bus.keys.user("gateway", service_permissions(Role.GATEWAY), lifetime_seconds=60)
    assert (await _try_to_connect(bus.url, good)).startswith("connected")
