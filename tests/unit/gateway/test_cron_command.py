"""What `/cron` reads and says; the story through a chat is in the integration tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from hermes_contracts.envelopes import Route
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.jobs import CreateJob, Deleted, Jobs, JobView
from hermes_contracts.names import RoutingKey, session_id
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_gateway.gateway.jobs.chat import CronCommands

KEY = RoutingKey(channel="telegram", account="12", chat="77")
ROUTE = Route(sid=session_id("uid", "helper", KEY), namespace="team", profile="helper", owner="telegram::5", key=KEY)
BLANK = dict.fromkeys(("created_at", "next_run", "last_run", "last_outcome", "last_delivery"), "")
NEWS = JobView.model_validate(
    {
        **BLANK, "id": "news-1", "title": "News", "profile": "helper", "schedules": ("daily at 9am",), "time_zone": "UTC",
        "prompt": "Tell me the news.", "repeat": None, "deliver": (), "suspended": False, "succeeded": 0, "failed": 0,
        "managed_by": "argocd",
    }
)  # fmt: skip


def message(text: str, update: str = "1") -> ChatMessage:
    return ChatMessage(
        channel="telegram", account="12", team="", user="5", chat="77", kind="direct", thread="", reply_thread="",
        update_id=update, order="1", text=text,
    )  # fmt: skip


@dataclass
class Operator:
    asked: list[tuple[str, Any]] = field(default_factory=list)
    error: HermesError | None = None

    async def call(self, method: Any, request: Any, **_: Any) -> Any:
        self.asked.append((method.name, request))
        if self.error is not None:
            raise self.error
        return {"list": Jobs(jobs=(NEWS,)), "delete": Deleted(existed=True)}.get(method.name, NEWS)


async def say(operator: Operator, argument: str, update: str = "1") -> str:
    return await CronCommands(operator).answer(argument, message(argument, update), ROUTE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "argument",
    [
        'add "daily at 9am" Tell me\nthe news.',
        "add  “daily at 9am”  Tell me\nthe news.",
        "add «daily at 9am» Tell me\nthe news.",
    ],
)
async def test_quotes_of_all_keyboards_hold_the_time(argument: str) -> None:
    operator = Operator()
    assert (await say(operator, argument)).startswith("Noted. **News**")
    [(name, request)] = operator.asked
    assert name == "create"
    assert isinstance(request, CreateJob)
    assert (request.schedule, request.prompt, request.title) == ("daily at 9am", "Tell me\nthe news.", "Tell me the news.")
    assert request.by is not None
    assert (request.by.owner, request.by.profiles, request.deliver[0].chat) == ("telegram::5", ("helper",), "77")


@pytest.mark.parametrize("argument", ["add daily Tell me.", 'add "daily at 9am"', "explode", "pause", "run "])
async def test_what_cannot_be_read_is_answered_with_how_to_say_it(argument: str) -> None:
    operator = Operator()
    assert "/cron add" in await say(operator, argument)
    assert operator.asked == []


async def test_a_list_says_who_keeps_a_job_elsewhere() -> None:
    assert "kept by argocd, read-only here" in await say(Operator(), "")


async def test_a_message_that_comes_again_is_the_same_run() -> None:
    operator = Operator()
    for update in ("1", "1", "2"):
        assert "runs now" in await say(operator, "run NEWS", update)
    tokens = [request.token for name, request in operator.asked if name == "run"]
    assert tokens[0] == tokens[1] != tokens[2]


@pytest.mark.parametrize(
    ("code", "said"),
    [(ErrorCode.UNAVAILABLE, "Say it again in a minute"), (ErrorCode.FORBIDDEN, "not possible: kept elsewhere")],
)
async def test_what_the_operator_refuses_is_said(code: ErrorCode, said: str) -> None:
    assert said in await say(Operator(error=HermesError(code, "kept elsewhere")), "remove news")
