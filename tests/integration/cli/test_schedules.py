"""`hermes cron` with an address and a key, and no cluster: the jobs of the key's owner, as their operator keeps them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.gateway.jobs_desk import Operator

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_schedules_over_the_api(hermes: Any, stack: Any) -> None:
    operator = Operator()
    await operator.serve(stack.operator_bus)
    made = await hermes.run("cron", "add", "daily at 9am", "Tell me the news.", "--name", "News", "--deliver", "home")
    assert (made.code, made.out) == (0, "news-1 is on: daily at 9am (UTC).\n"), made.err
    [job] = operator.jobs.values()
    assert [(target.channel, target.account) for target in job.deliver] == [("home", "dev")]
    [listed] = (await hermes.run("cron", "list", "--json")).json()
    assert (listed["name"], listed["title"], listed["schedules"], listed["suspended"]) == (
        "news-1", "News", "daily at 9am", False,
    )  # fmt: skip
    assert (await hermes.run("cron", "show", "news", "--json")).json()["deliver"] == "home"
    assert (await hermes.run("cron", "pause", "NEWS")).out == "news-1 is paused.\n"
    assert (await hermes.run("cron", "run", "news-1")).code == 0
    assert len(operator.tokens) == 1
    refused = await hermes.run("cron", "add", "every 1m", "Watch.")
    assert (refused.code, "5 minutes apart" in refused.err) == (4, True), refused.err
    missing = await hermes.run("cron", "remove", "weekly")
    assert (missing.code, "no job 'weekly'" in missing.err) == (4, True), missing.err
    assert (await hermes.run("cron", "remove", "news")).code == 0
    assert operator.jobs == {}


async def test_with_kubectl_alone_a_job_is_made_by_a_manifest(hermes: Any) -> None:
    done = await hermes.run("cron", "add", "daily at 9am", "x", env={"HERMES_URL": "", "HERMES_API_KEY": ""})
    assert (done.code, "needs the gateway's address" in done.err) == (2, True), done.err
