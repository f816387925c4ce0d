"""Telegram as a process of its own, whose people are told by HTTP what to do: for tests on a cluster."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermes_gateway.gateway.web.server import serve
from tests.fakes.telegram_server import FakeTelegram, Json, TelegramPerson, routes


def build(telegram: FakeTelegram) -> Starlette:
    """Return the Bot API, `GET /state` and `POST /act`."""

    async def state(_: Request) -> Response:
        return JSONResponse({"chats": {str(chat): [_shown(m) for m in told] for chat, told in telegram.chats.items()}})

    async def act(request: Request) -> Response:
        order: dict[str, Any] = await request.json()
        person, chat = TelegramPerson(telegram, order["user"]), order.get("chat") or order["user"]
        telegram.chats.setdefault(chat, [])
        said = await person.write(chat, order["text"], topic=order.get("topic"))
        return JSONResponse({"said": said})

    return Starlette(routes=[*routes(telegram), Route("/state", state), Route("/act", act, methods=["POST"])])


def _shown(message: Json) -> Json:
    """Return a message with the bytes of its file as text."""
    if "posted" not in message:
        return message
    kind, name, data, caption = message["posted"]
    return {**message, "posted": [kind, name, data.decode("latin-1"), caption]}


async def run(port: int) -> None:
    """Serve for ever."""
    async with serve(build(FakeTelegram()), "0.0.0.0", port, shutdown_seconds=0):
        await asyncio.Event().wait()
