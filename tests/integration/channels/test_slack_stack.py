"""The whole product as processes behind a workspace: a signed event in, an answer of the agent out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from typing import Any

import httpx

from hermes_contracts.access import SlackAccount, WebhookRoute
from hermes_contracts.envelopes import Target
from hermes_gateway.gateway.channels.signatures import sign
from local_stack.runner import LocalRunner
from local_stack.stack import NAMESPACE, Stack, running_stack, stack_folder
from tests.fakes.slack_server import FakeSlack, SlackPerson
from tests.integration.channels.chat_world import account
from tests.integration.gateway.world import until

SECRET = "a-secret-of-the-alarms"
MADE = [
    {"calls": [{"name": "terminal", "arguments": {"command": "printf a,b > r.csv; ln -s /etc/passwd out.csv"}}]},
    {
        "calls": [
            {"name": "send_file", "arguments": {"path": "out.csv"}},
            {"name": "send_file", "arguments": {"path": "r.csv", "caption": "Numbers"}},
        ]
    },
    {"say": "One of two."},
]


async def _sessions(stack: Stack) -> list[dict[str, Any]]:
    headers = {"Authorization": f"Bearer {stack.api_key}"}
    async with httpx.AsyncClient(base_url=stack.api_url, headers=headers) as client:
        found: list[dict[str, Any]] = (await client.get("/api/sessions")).json()["data"]
    return found


async def test_agents_answer_in_slack(slack: FakeSlack) -> None:
    bound = SlackAccount.model_validate(
        account(slack, namespace=NAMESPACE, profile="default", pairing=True, admins=["UANNA"], user_commands=["stop"])
    )
    alarms = WebhookRoute(
        name="alarms", namespace=NAMESPACE, profile="default", secret=SECRET,
        deliver=(Target(channel="home", account="slack:T0TEAM:UANNA"),),
    )  # fmt: skip
    with stack_folder() as folder:
        async with running_stack(folder, webhooks=(alarms,), slack=(bound,)) as stack:
            runner = LocalRunner(stack)
            task = asyncio.create_task(runner.run())
            try:
                await _talk(stack, runner, slack)
                await _let_in(stack, slack)
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


async def _talk(stack: Stack, runner: LocalRunner, slack: FakeSlack) -> None:
    address = f"{stack.webhooks_url}/slack/acme"
    slack.channels |= {"D0UANNA": [], "D0UBEN": [], "C0ROOM": []}
    anna, ben = SlackPerson(slack, "UANNA", address), SlackPerson(slack, "UBEN", address)

    await anna.direct("!echo $((6*7)) > answer; cat answer")
    await until(lambda: any("42" in text and "…" not in text for text in slack.texts("D0UANNA")), 60)
    assert len(slack.texts("D0UANNA")) == 1
    thread = await anna.mention("C0ROOM", "!cat answer")
    await until(lambda: any("42" in text and "…" not in text for text in slack.texts("C0ROOM", thread)), 60)

    # Another person has another agent, with a workspace of its own.
    await ben.direct("!cat answer || echo nothing")
    await until(lambda: any("nothing" in text and "…" not in text for text in slack.texts("D0UBEN")), 60)
    assert len(runner.sessions) == 2
    assert await _sessions(stack) == []

    # What the agent made comes as a file, behind the answer; what a link of the workspace leads to does not.
    await ben.direct(f"What did you make?\n#script {json.dumps({'steps': MADE})}")
    await until(lambda: len(slack.sent_files("D0UBEN")) == 1, 60)
    assert slack.sent_files("D0UBEN") == [("r.csv", b"a,b", "Numbers")]
    assert slack.texts("D0UBEN")[-1] == "One of two."
    assert [list(message).count("files") for message in slack.written("D0UBEN")][-2:] == [0, 1]

    # What others tell her agent reaches her at home, wherever that is at the moment.
    assert "This is your home now" in (await anna.command("/sethome")).json()["text"]
    alarm = json.dumps({"text": f"Look.\n#script {json.dumps({'say': 'The disk is full.'})}"}).encode()
    timestamp = int(time.time())
    signature = {"Hermes-Timestamp": str(timestamp), "Hermes-Signature": sign(SECRET, timestamp, alarm)}
    headers = {**signature, "Hermes-Delivery-Id": "alarm-1"}
    async with httpx.AsyncClient(base_url=stack.webhooks_url) as http:
        assert (await http.post("/webhooks/alarms", content=alarm, headers=headers)).status_code == 200
    await until(lambda: "The disk is full." in slack.texts("D0UANNA"), 60)

    # A command reaches an agent that works, within a second or so.
    await anna.direct("!sleep 60")
    answer = ""
    for _ in range(100):
        answer = (await anna.command("/status")).json()["text"]
        if "working on a message" in answer:
            break
    assert "working on a message" in answer
    began = asyncio.get_running_loop().time()
    said = (await anna.command("/stop")).json()["text"]
    await until(lambda: len(slack.texts("D0UANNA")) == 3 and "…" not in slack.texts("D0UANNA")[2], 20)
    assert asyncio.get_running_loop().time() - began < 5, said


async def _let_in(stack: Stack, slack: FakeSlack) -> None:
    """A stranger is given a code, an admin lets him in with it, and puts him out again."""
    address = f"{stack.webhooks_url}/slack/acme"
    slack.channels |= {"D0UEVE": []}
    anna, ben, eve = (SlackPerson(slack, user, address) for user in ("UANNA", "UBEN", "UEVE"))
    await eve.direct("!echo one")
    await until(lambda: slack.texts("D0UEVE") != [])
    (said,) = slack.texts("D0UEVE")
    found = re.search(r"/pair approve ([A-Z2-9]{8})`", said)
    assert found is not None, said
    assert "for admins" in (await ben.command("/pair", f"approve {found[1]}")).json()["text"]
    assert "No code like this" in (await anna.command("/pair", "approve ZZZZ9999")).json()["text"]
    assert "`UEVE` may use me" in (await anna.command("/pair", f"approve {found[1].lower()}")).json()["text"]
    await eve.direct("!echo let $((1+1)) in")
    await until(lambda: any("let 2 in" in text and "…" not in text for text in slack.texts("D0UEVE")), 60)
    assert "`UEVE`, by `UANNA`" in (await anna.command("/pair")).json()["text"]
    assert "not let in" in (await anna.command("/pair", "revoke UEVE")).json()["text"]
    assert "You were given a code" in (await eve.command("/status")).json()["text"]
    assert "approved `UEVE`" in (await anna.command("/pair")).json()["text"]
    logs = "".join(path.read_text(errors="replace") for path in stack.folder.rglob("*.log"))
    assert logs and found[1] not in logs
