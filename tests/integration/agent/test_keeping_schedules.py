"""The real agent process keeps a schedule over the real bus, with the rights that it has and no others."""

from __future__ import annotations

import json

from hermes_agent.testing.model import call, say
from hermes_contracts import subjects
from hermes_contracts.conversation import ToolResultPart
from tests.integration.agent.agent_world import CONVERSATION, World, until
from tests.integration.gateway.jobs_desk import Operator


async def test_a_conversation_makes_a_job_and_runs_it(world: World) -> None:
    operator = Operator()
    await operator.serve(world.admin, subjects.agent_jobs("*", "*", "*"))
    create = json.dumps({"action": "create", "schedule": "daily at 9am", "prompt": "Tell me the news.", "name": "News"})
    world.model._script = [
        call(("1", "cronjob_manage", create)),
        call(("2", "cronjob_manage", json.dumps({"action": "run", "job_id": "news"}))),
        say("It is kept, and runs now."),
    ]
    await world.start_agent(toolsets=("terminal", "cronjob"))
    update = await world.send("Tell me the news every day.")
    await until(lambda: world.settled(update), "the turn ends")
    parts = [part for message in world.store.transcript(CONVERSATION) for part in message.parts]
    results = [part.text for part in parts if isinstance(part, ToolResultPart)]
    assert results == [
        "Created. **News** (`news-1`): daily at 9am (UTC), no next run yet, to local. Tell me the news.",
        "News runs now. Its answer goes to: local.",
    ]
    assert (operator.asked, len(operator.tokens)) == ([None, None], 1)
    assert world.denied() == []
