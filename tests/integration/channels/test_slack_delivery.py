"""Answers reach Slack once and in order, whatever goes wrong on the way."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from hermes_contracts.envelopes import Outbound
from local_stack.processes import Process
from tests.fakes.slack_server import Fault
from tests.integration.channels.chat_world import ChatWorld
from tests.integration.gateway.world import until


async def test_an_answer_grows_in_the_message_that_becomes_it(chat: ChatWorld) -> None:
    anna = chat.person("UANNA")
    await anna.direct("grow")
    await until(lambda: chat.slack.count("chat.update") == 3)
    chat.script.released.set()
    await until(lambda: bool(chat.script.finished))
    (message,) = chat.slack.written("D0UANNA")
    *shown, answer = chat.slack.edits[message["ts"]]
    assert answer == message["text"]
    assert answer.split()[:2] == ["1", "2"]
    assert all(text.endswith(" …") and answer.startswith(text.removesuffix(" …")) for text in shown)
    assert [finish.platform_message_id for finish in chat.script.finished] == [message["ts"]]
    times = [at for method, _, at in chat.slack.calls if method in ("chat.postMessage", "chat.update")]
    assert all(later - earlier > 0.9 for earlier, later in itertools.pairwise(times))


@pytest.mark.parametrize("fault", ["rate_limit", "server_error", "lost_before", "lost_after", "hang_after", "not_json"])
async def test_an_answer_comes_once_whatever_slack_does(chat: ChatWorld, fault: Fault) -> None:
    anna = chat.person("UANNA")
    chat.slack.fail("chat.postMessage", fault)
    await anna.direct("hello")
    await until(lambda: any(finish.outcome == "delivered" for finish in chat.script.finished), 20)
    assert chat.slack.texts("D0UANNA") == ["You said: hello"]
    await anna.direct("and again")
    await chat.said("D0UANNA", "You said: hello", "You said: and again")


async def test_an_edit_that_fails_does_not_cost_the_answer(chat: ChatWorld) -> None:
    anna = chat.person("UANNA")
    chat.slack.fail("chat.update", "lost_after", "rate_limit", "hang_after")
    await anna.direct("grow")
    await until(lambda: chat.slack.count("chat.update") == 3, 20)
    chat.script.released.set()
    await until(lambda: any(finish.outcome == "delivered" for finish in chat.script.finished), 20)
    (text,) = chat.slack.texts("D0UANNA")
    assert not text.endswith("…")


async def test_a_long_answer_comes_in_whole_parts(chat: ChatWorld) -> None:
    anna = chat.person("UANNA")
    code = "\n".join(f"line {number}: <{'x' * 60}>" for number in range(100))
    chat.script.answers["show me"] = f"# Here\n\n```\n{code}\n```\n\nThat is **all**."
    chat.slack.fail("chat.postMessage", "server_error")
    await anna.direct("show me")
    await until(lambda: sum(finish.outcome == "delivered" for finish in chat.script.finished) == 3, 30)
    texts = chat.slack.texts("D0UANNA")
    assert len(texts) == 3
    assert all(text.count("```") == 2 for text in texts)
    assert texts[0].startswith("*Here*")
    assert texts[2].endswith("That is *all*.")
    lines = [line for text in texts for line in text.split("\n") if line.startswith("line ")]
    assert lines == [line.replace("<", "&lt;").replace(">", "&gt;") for line in code.split("\n")]


async def test_what_cannot_be_delivered_is_given_up_and_recorded(chat: ChatWorld) -> None:
    anna = chat.person("UANNA")
    body = anna.event("D0UANNA", "hello")
    del chat.slack.channels["D0UANNA"]
    assert (await anna.send(body)).status_code == 200
    await until(lambda: any(finish.outcome == "failed" for finish in chat.script.finished))
    (failed,) = [finish for finish in chat.script.finished if finish.outcome == "failed"]
    assert failed.error == "Slack answered channel_not_found"


async def test_an_account_serves_its_own_namespace_only(chat: ChatWorld) -> None:
    anna = chat.person("UANNA")
    await anna.direct("hello")
    await chat.said("D0UANNA", "You said: hello")
    sid = chat.script.inbound[0].sid
    foreign = Outbound(
        delivery_id=f"{sid}.tforeign.1", sid=sid, turn_id="tforeign", part=1, parts=1, channel="slack",
        account="T0TEAM.A0APP", chat="D0UANNA", thread="", text="not yours", namespace="elsewhere",
    )  # fmt: skip
    await chat.script.deliver(foreign)
    await until(lambda: any(finish.outcome == "failed" for finish in chat.script.finished))
    assert chat.slack.texts("D0UANNA") == ["You said: hello"]


async def _process(chat: ChatWorld) -> tuple[Process, str]:
    process = await chat.world.gateway_process()
    return process, f"http://127.0.0.1:{process.environment['HERMES_WEBHOOKS_PORT']}"


async def test_a_gateway_killed_between_send_and_record_doubles_nothing(chat: ChatWorld) -> None:
    """Twice: while the answer is posted, and while the message that was to show it is."""
    await chat.world.retire_first_gateway()
    first, address = await _process(chat)
    await chat.world.leases_shared(8, seconds=30)
    anna, ben = chat.person("UANNA", webhooks=address), chat.person("UBEN", webhooks=address)
    chat.slack.fail("chat.postMessage", "hang_after")
    await anna.direct("hello")
    await until(lambda: chat.slack.count("chat.postMessage") == 1)
    await first.kill()
    second, address = await _process(chat)
    await chat.said("D0UANNA", "You said: hello", seconds=40)
    await until(lambda: any(finish.outcome == "delivered" for finish in chat.script.finished), 40)
    assert chat.slack.texts("D0UANNA") == ["You said: hello"]

    ben.events_url = f"{address}/slack/acme"
    await chat.world.leases_shared(8, seconds=30)
    chat.slack.fail("chat.postMessage", "hang_after")
    await ben.direct("grow")
    await until(lambda: chat.slack.texts("D0UBEN") != [])
    await second.kill()
    chat.script.released.set()
    await _process(chat)
    await until(lambda: sum(finish.outcome == "delivered" for finish in chat.script.finished) == 2, 40)
    (text,) = chat.slack.texts("D0UBEN")
    assert text.startswith("1")
    assert not text.endswith("…")
    await asyncio.gather(first.wait(), second.wait())
