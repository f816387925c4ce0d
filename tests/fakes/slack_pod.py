"""A Slack workspace as a process of its own, whose people are told by HTTP what to do: for tests on a cluster."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermes_gateway.gateway.web.server import serve
from tests.fakes.slack_server import FakeSlack, SlackPerson


def build(slack: FakeSlack, app_url: str) -> Starlette:
    """Return Slack's Web API, `GET /state` and `POST /act`. `app_url` is where the app is, with the account's name."""

    async def state(_: Request) -> Response:
        return JSONResponse({"channels": slack.channels, "calls": [name for name, _, _ in slack.calls]})

    async def act(request: Request) -> Response:
        order: dict[str, Any] = await request.json()
        person = SlackPerson(slack, slack.member(order["user"]), app_url)
        match order["do"]:
            case "direct":
                said: Any = await person.direct(order["text"], thread=order.get("thread", ""))
            case "mention":
                said = await person.mention(order["channel"], order["text"], thread=order.get("thread", ""))
            case "command":
                said = (await person.command("/hermes", order["text"])).json()
            case "press":
                (message,) = [m for m in slack.channels[order["channel"]] if m["ts"] == order["message"]]
                answer = await person.send_press(person.press(order["channel"], message, order["label"]))
                said = answer.status_code
            case "fail":
                slack.fail(order["method"], *order["faults"])
                said = True
        return JSONResponse({"said": said})

    return Starlette(
        routes=[
            Route("/api/{method}", slack.handle, methods=["GET", "POST"]),
            Route("/state", state),
            Route("/act", act, methods=["POST"]),
        ]
    )


async def run(port: int) -> None:
    """Serve for ever."""
    async with serve(build(FakeSlack(), os.environ["APP_URL"]), "0.0.0.0", port, shutdown_seconds=0):
        await asyncio.Event().wait()
