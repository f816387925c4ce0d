"""Somebody keeps jobs from a chat with `/cron`: they are his, go to where he asked, and what is refused he reads."""

from __future__ import annotations

from hermes_contracts.crd.cron_job import DeliverTarget
from hermes_contracts.envelopes import Outbound
from hermes_contracts.jobs import JobOwner
from hermes_contracts.names import RoutingKey, session_id
from tests.integration.channels.telegram_world import ANNA, TelegramWorld
from tests.integration.gateway.jobs_desk import Operator
from tests.integration.gateway.world import until


async def test_a_job_is_kept_from_a_chat(bot: TelegramWorld) -> None:
    operator, anna = Operator(), bot.person(ANNA)
    await operator.serve(bot.world.admin)

    async def says(text: str, *expected: str) -> None:
        before = len(bot.telegram.texts(ANNA))
        await anna.direct(text)
        await until(lambda: len(bot.telegram.texts(ANNA)) > before, 20)
        answer = bot.telegram.texts(ANNA)[before].replace("\\", "")
        missing = [part for part in expected if part not in answer]
        assert not missing, answer

    await says("/cron add “daily at 9am” Tell me the news.", "Noted", "Tell me the news.", "to origin")
    assert operator.asked[-1] == JobOwner(namespace="team", owner=f"telegram::{ANNA}", profiles=("helper",))
    [job] = operator.jobs.values()
    [target] = job.deliver
    assert target == DeliverTarget(channel="telegram", account=target.account, chat=str(ANNA))
    sid = session_id("11111111-2222-3333-4444-555555555555", "helper", RoutingKey(channel="cron", account="job", chat="1"))
    answer = Outbound(
        delivery_id=f"{sid}.t1.1", sid=sid, turn_id="t1", part=1, parts=1, channel=target.channel, account=target.account,
        chat=target.chat, thread=target.thread, text="No news.", namespace="team",
    )  # fmt: skip
    await bot.script.deliver(answer)
    await until(lambda: "No news" in bot.telegram.texts(ANNA)[-1], 20)
    await says("/cron pause tell me the news.", "paused")
    await says('/cron add "every 1m" Watch.', "not possible", "5 minutes apart")
    await says(f"/cron remove {job.id}", "Removed")
    assert operator.jobs == {}
