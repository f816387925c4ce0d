"""Telegram's Bot API on a real HTTP server, as far as a bot uses it: its limits, its faults, and what people do."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any, Literal

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from hermes_gateway.gateway.web.server import serve

Json = dict[str, Any]
Fault = Literal["rate_limit", "server_error", "lost_before", "lost_after", "hang"]
BOT_ID, USERNAME = 4242, "hermes_bot"
TOKEN = f"{BOT_ID}:AAtoken-of-the-bot-which-is-long"
SECRET = "the-secret-of-the-webhook"
_MARKUP = re.compile(r"(?<!\\)[_*\[\]()~`>#+\-=|{}.!]")


@dataclass
class FakeTelegram:
    """State of the platform: chats with their messages, and the updates that the bot has not confirmed."""

    chats: dict[int, list[Json]] = field(default_factory=dict)
    updates: list[Json] = field(default_factory=list)
    posted: list[Json] = field(default_factory=list)
    """Updates that the bot has taken by post."""
    calls: list[tuple[str, Json, float]] = field(default_factory=list)
    faults: dict[str, deque[Fault]] = field(default_factory=dict)
    webhook: Json = field(default_factory=dict)
    post_failure: Json = field(default_factory=dict)
    """What it says of a post that failed: `last_error_date`, `last_error_message`."""
    commands: list[Json] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    """Presses whose waiting sign was ended."""
    files: dict[str, bytes] = field(default_factory=dict)
    blocked: set[int] = field(default_factory=set)
    retry_after: int = 1
    url: str = ""
    released: asyncio.Event = field(default_factory=asyncio.Event)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(int(time.time() * 10) % 1_000_000_000))
    """Of messages and updates: another run must not use those of an earlier one, which the product has answered."""
    _posts: set[asyncio.Task[None]] = field(default_factory=set)

    def fail(self, method: str, *faults: Fault) -> None:
        """Have the next calls of a method go wrong."""
        self.faults.setdefault(method, deque()).extend(faults)

    def texts(self, chat: int, topic: int | None = None) -> list[str]:
        """Return what the bot has written in a chat, as people read it."""
        shown = [m for m in self.written(chat) if "text" in m]
        return [m["text"] for m in shown if topic is None or m.get("message_thread_id") == topic]

    def sent_files(self, chat: int) -> list[tuple[str, str, bytes, str]]:
        """Return the files that the bot has posted: `photo` or `document`, name, bytes, caption."""
        return [m["posted"] for m in self.written(chat) if "posted" in m]

    def written(self, chat: int) -> list[Json]:
        return [m for m in self.chats.get(chat, []) if m["from"]["id"] == BOT_ID]

    def count(self, method: str) -> int:
        return sum(1 for name, _, _ in self.calls if name == method)

    async def handle(self, request: Request) -> Response:
        method = _METHODS[request.path_params["method"].lower()]
        arguments = await _arguments(request)
        self.calls.append((method, arguments, time.monotonic()))
        if request.path_params["token"] != TOKEN:
            return _error(401, "Unauthorized")
        waiting = self.faults.get(method)
        fault = waiting.popleft() if waiting else None
        if fault == "rate_limit":
            body = {"ok": False, "error_code": 429, "description": f"Too Many Requests: retry after {self.retry_after}"}
            return JSONResponse({**body, "parameters": {"retry_after": self.retry_after}}, 429)
        if fault == "server_error":
            return _error(502, "Bad Gateway")
        if fault == "lost_before":
            return _cut()
        if fault == "hang":
            await self.released.wait()
        act: Callable[[Json], Any] = getattr(self, "do_" + method)
        answer = act(arguments)
        answer = await answer if asyncio.iscoroutine(answer) else answer
        if fault == "lost_after":
            return _cut()
        return answer if isinstance(answer, Response) else JSONResponse({"ok": True, "result": answer})

    def do_getMe(self, _: Json) -> Json:
        return {"id": BOT_ID, "is_bot": True, "first_name": "Hermes", "username": USERNAME}

    def do_setMyCommands(self, arguments: Json) -> bool:
        self.commands = arguments["commands"]
        return True

    def do_setWebhook(self, arguments: Json) -> bool:
        self.webhook = arguments
        self._news.set()
        return True

    def do_getWebhookInfo(self, _: Json) -> Json:
        return {
            "url": self.webhook.get("url", ""), "has_custom_certificate": False, "pending_update_count": len(self.updates),
            **self.post_failure,
        }  # fmt: skip

    def do_deleteWebhook(self, _: Json) -> bool:
        self.webhook = {}
        return True

    async def do_getUpdates(self, arguments: Json) -> Any:
        if self.webhook:
            return _error(409, "Conflict: can't use getUpdates method while webhook is active")
        offset = int(arguments.get("offset") or 0)
        self.updates = [update for update in self.updates if update["update_id"] >= offset]
        if not self.updates:
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), float(arguments.get("timeout") or 0))
            except TimeoutError:
                return []
        return self.updates[:100]

    def do_sendMessage(self, arguments: Json) -> Any:
        chat = int(arguments["chat_id"])
        if chat in self.blocked:
            return _error(403, "Forbidden: bot was blocked by the user")
        if chat not in self.chats:
            return _error(400, "Bad Request: chat not found")
        text = _readable(arguments)
        if isinstance(text, Response):
            return text
        message: Json = {
            "message_id": next(self._numbers), "date": int(time.time()), "chat": _chat(chat), "text": text,
            "from": {"id": BOT_ID, "is_bot": True, "first_name": "Hermes", "username": USERNAME},
        }  # fmt: skip
        if arguments.get("message_thread_id"):
            message |= {"message_thread_id": int(arguments["message_thread_id"]), "is_topic_message": True}
        if arguments.get("reply_markup"):
            message["reply_markup"] = arguments["reply_markup"]
        self.chats[chat].append(message)
        return message

    def do_sendDocument(self, arguments: Json) -> Any:
        return self._post_file("document", arguments)

    def do_sendPhoto(self, arguments: Json) -> Any:
        if "panorama" in arguments["photo"][0]:
            return _error(400, "Bad Request: PHOTO_INVALID_DIMENSIONS")
        return self._post_file("photo", arguments)

    def _post_file(self, kind: str, arguments: Json) -> Any:
        chat = int(arguments["chat_id"])
        if chat in self.blocked:
            return _error(403, "Forbidden: bot was blocked by the user")
        name, data = arguments[kind]
        message: Json = {
            "message_id": next(self._numbers), "date": int(time.time()), "chat": _chat(chat),
            "from": {"id": BOT_ID, "is_bot": True, "first_name": "Hermes", "username": USERNAME},
            "caption": arguments.get("caption", ""),
        }  # fmt: skip
        if arguments.get("message_thread_id"):
            message |= {"message_thread_id": int(arguments["message_thread_id"]), "is_topic_message": True}
        self.chats[chat].append({**message, "posted": (kind, name, data, message["caption"])})
        return message

    def do_editMessageText(self, arguments: Json) -> Any:
        found = self._find(arguments)
        if found is None:
            return _error(400, "Bad Request: message to edit not found")
        text = _readable(arguments)
        if isinstance(text, Response):
            return text
        if text == found["text"] and arguments.get("reply_markup") == found.get("reply_markup"):
            return _error(400, "Bad Request: message is not modified: specified new message content is the same")
        found["text"] = text
        found.pop("reply_markup", None)
        if arguments.get("reply_markup"):
            found["reply_markup"] = arguments["reply_markup"]
        return found

    def do_deleteMessage(self, arguments: Json) -> Any:
        found = self._find(arguments)
        if found is None:
            return _error(400, "Bad Request: message to delete not found")
        self.chats[int(arguments["chat_id"])].remove(found)
        return True

    def do_getFile(self, arguments: Json) -> Any:
        data = self.files.get(arguments["file_id"])
        if data is None:
            return _error(400, "Bad Request: wrong file_id or the file is temporarily unavailable")
        identity = arguments["file_id"]
        return {"file_id": identity, "file_unique_id": identity, "file_size": len(data), "file_path": f"files/{identity}"}

    async def download(self, request: Request) -> Response:
        """Serve a file."""
        data = self.files.get(request.path_params["file"])
        if request.path_params["token"] != TOKEN or data is None:
            return _error(404, "Not Found")
        return Response(data, media_type="application/octet-stream")

    def do_sendChatAction(self, _: Json) -> bool:
        return True

    def do_answerCallbackQuery(self, arguments: Json) -> bool:
        self.answered.append(arguments["callback_query_id"])
        return True

    def _find(self, arguments: Json) -> Json | None:
        messages = self.written(int(arguments["chat_id"]))
        return next((m for m in messages if m["message_id"] == int(arguments["message_id"])), None)

    def number(self) -> int:
        """Return a number that no message or update has."""
        return next(self._numbers)

    async def tell(self, update: Json) -> None:
        """Give the bot an update: post it until it is taken, or keep it until it is fetched."""
        if not self.webhook:
            self.updates.append(update)
            self._news.set()
            return
        for _ in range(50):
            headers = {"X-Telegram-Bot-Api-Secret-Token": self.webhook.get("secret_token", "")}
            async with httpx.AsyncClient(timeout=20) as client:
                try:
                    if (await client.post(self.webhook["url"], json=update, headers=headers)).status_code == 200:
                        self.posted.append(update)
                        return
                except httpx.TransportError:
                    pass
            await asyncio.sleep(0.2)
        raise AssertionError("the bot did not take the update")


_METHODS = {name[3:].lower(): name[3:] for name in vars(FakeTelegram) if name.startswith("do_")}
"""By their names in small letters: Telegram does not mind the case."""


@dataclass
class TelegramPerson:
    """Somebody who writes to the bot."""

    telegram: FakeTelegram
    user: int

    async def direct(self, text: str, **more: Any) -> int:
        """Write in the private chat; returns the message's number."""
        return await self.write(self.user, text, **more)

    async def write(self, chat: int, text: str, *, topic: int | None = None, **more: Any) -> int:
        """Write into a chat; mentions and commands are marked as Telegram marks them."""
        number = self.telegram.number()
        message: Json = {
            "message_id": number, "date": int(time.time()), "chat": _chat(chat), "from": self._self(), "text": text,
            "entities": _entities(text), **more,
        }  # fmt: skip
        if not text:
            del message["text"], message["entities"]
        if "caption" in more:
            message["caption_entities"] = _entities(more["caption"])
        if topic is not None:
            message |= {"message_thread_id": topic, "is_topic_message": True}
        self.telegram.chats.setdefault(chat, []).append(message)
        await self.telegram.tell({"update_id": self.telegram.number(), "message": message})
        return number

    async def press(self, chat: int, message: Json, label: str) -> str:
        """Press a button; returns the press's id."""
        buttons = [button for row in message["reply_markup"]["inline_keyboard"] for button in row]
        (data,) = [button["callback_data"] for button in buttons if button["text"] == label]
        identity = f"press{self.telegram.number()}"
        query = {"id": identity, "from": self._self(), "message": message, "chat_instance": "1", "data": data}
        await self.telegram.tell({"update_id": self.telegram.number(), "callback_query": query})
        return identity

    def _self(self) -> Json:
        return {"id": self.user, "is_bot": False, "first_name": "Somebody"}


@asynccontextmanager
async def fake_telegram(host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[FakeTelegram]:
    """Run it."""
    telegram = FakeTelegram()
    app = Starlette(routes=routes(telegram))
    async with serve(app, host, port, shutdown_seconds=0) as found:
        telegram.url = f"http://127.0.0.1:{found}/"
        try:
            yield telegram
        finally:
            telegram.released.set()
            telegram._news.set()


def routes(telegram: FakeTelegram) -> list[Route]:
    """Return the routes of the Bot API."""
    return [
        Route("/bot{token}/{method}", telegram.handle, methods=["GET", "POST"]),
        Route("/file/bot{token}/files/{file}", telegram.download),
    ]


def _chat(chat: int) -> Json:
    if chat > 0:
        return {"id": chat, "type": "private", "first_name": "Somebody"}
    return {"id": chat, "type": "supergroup", "title": "Room", "is_forum": True}


def _entities(text: str) -> list[Json]:
    found = []
    for match in re.finditer(r"@\w+|/\w+(?:@\w+)?", text):
        offset = len(text[: match.start()].encode("utf-16-le")) // 2
        kind = "mention" if match.group().startswith("@") else "bot_command"
        found.append({"type": kind, "offset": offset, "length": len(match.group().encode("utf-16-le")) // 2})
    return found


def _readable(arguments: Json) -> str | Response:
    """Return a text as people read it, or Telegram's refusal."""
    text = str(arguments["text"])
    if arguments.get("parse_mode") == "MarkdownV2":
        bare = re.sub(r"```.*?```|`[^`]*`|\[[^\]]*\]\([^)]*\)", "", text, flags=re.DOTALL)
        for mark in ("*", "_", "~"):
            if len(re.findall(rf"(?<!\\)\{mark}", bare)) % 2:
                return _error(400, f"Bad Request: can't parse entities: Can't find end of the entity {mark}")
        stray = re.search(r"(?<!\\)[\[\]()#+\-=|{}.!]", bare)
        if stray:
            return _error(400, f"Bad Request: can't parse entities: Character '{stray.group()}' is reserved")
        text = re.sub(r"\\([_*\[\]()~`>#+\-=|{}.!\\])", r"\1", _MARKUP.sub("", text) if "`" not in text else text)
    if len(text.encode("utf-16-le")) // 2 > 4096:
        return _error(400, "Bad Request: message is too long")
    return text


async def _arguments(request: Request) -> Json:
    found: Json = dict(request.query_params)
    if request.headers.get("content-type", "").startswith("multipart/"):
        return {**found, **_parts(request.headers["content-type"], await request.body())}
    body = await request.body()
    if request.headers.get("content-type", "").startswith("application/json"):
        found.update(json.loads(body or b"{}"))
    elif body:
        form = dict(httpx.QueryParams(body.decode()).items())
        found.update({name: json.loads(value) if name in _STRUCTURED else value for name, value in form.items()})
    return found


def _parts(content_type: str, body: bytes) -> Json:
    """Read a form with files: a file is its name and bytes; `attach://x` stands for the part x."""
    message = BytesParser(policy=HTTP).parsebytes(f"Content-Type: {content_type}\r\n\r\n".encode() + body)
    found: Json = {}
    for part in message.iter_parts():
        name, data = str(part.get_param("name", header="content-disposition")), part.get_payload(decode=True)
        assert isinstance(data, bytes)
        filename = part.get_filename()
        found[name] = (filename, data) if filename else data.decode()
    return {
        name: found[value.removeprefix("attach://")] if isinstance(value, str) and value.startswith("attach://") else value
        for name, value in found.items()
    }


_STRUCTURED = ("commands", "reply_markup", "allowed_updates", "link_preview_options")


def _error(code: int, description: str) -> Response:
    return JSONResponse({"ok": False, "error_code": code, "description": description}, code)


def _cut() -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"ok": tr'
        raise ConnectionResetError

    return StreamingResponse(pieces(), headers={"Content-Length": "500"}, media_type="application/json")
