"""A workspace of Slack on a real HTTP server: its Web API as far as an app uses it, its faults, and what its people do."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlencode

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from hermes_gateway.gateway.web.server import serve
from tests.fakes.slack_socket import APP_TOKEN, FakeSockets

Fault = Literal["rate_limit", "server_error", "lost_before", "lost_after", "hang", "hang_after", "not_json"]
TEAM, APP, BOT = "T0TEAM", "A0APP", "U0BOT"
SIGNING_SECRET, TOKEN = "a-signing-secret-of-slack", "xoxb-token-of-the-bot"


@dataclass
class FakeSlack:
    """State of the workspace. Messages are kept by channel, in order, as Slack shows them."""

    channels: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any], float]] = field(default_factory=list)
    faults: dict[str, deque[Fault]] = field(default_factory=dict)
    retry_after: int = 1
    scopes: tuple[str, ...] = (
        "app_mentions:read", "channels:history", "chat:write", "commands", "files:read", "files:write", "groups:history",
        "im:history", "users:read",
    )  # fmt: skip
    """Rights of the app."""
    released: asyncio.Event = field(default_factory=asyncio.Event)
    edits: dict[str, list[str]] = field(default_factory=dict)
    """Texts that each message had, by time, its first one included."""
    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    """By id; served to who shows the bot's token."""
    uploads: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """Name and bytes by id, of files that the app was given an address for."""
    sockets: FakeSockets | None = None
    """Set: the app may open connections."""
    _times: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def fail(self, method: str, *faults: Fault) -> None:
        """Have the next calls of a method go wrong, one after the other."""
        self.faults.setdefault(method, deque()).extend(faults)

    def texts(self, channel: str, thread: str | None = None) -> list[str]:
        """Return what the app has written in a channel, or a thread of it."""
        shown = [m for m in self.written(channel) if "files" not in m]
        return [m["text"] for m in shown if thread is None or m.get("thread_ts", "") == thread]

    def written(self, channel: str) -> list[dict[str, Any]]:
        return [m for m in self.channels.get(channel, []) if m.get("user") == BOT]

    def count(self, method: str) -> int:
        return sum(1 for name, _, _ in self.calls if name == method)

    def now(self) -> str:
        """Return a time that no other message has."""
        return f"{int(time.time())}.{next(self._times):06d}"

    async def handle(self, request: Request) -> Response:
        method = request.path_params["method"]
        arguments = await _arguments(request)
        self.calls.append((method, arguments, time.monotonic()))
        token = APP_TOKEN if method == "apps.connections.open" else TOKEN
        if request.headers.get("authorization") != f"Bearer {token}":
            return JSONResponse({"ok": False, "error": "invalid_auth"})
        waiting = self.faults.get(method)
        fault = waiting.popleft() if waiting else None
        if fault == "rate_limit":
            headers = {"Retry-After": str(self.retry_after)}
            return JSONResponse({"ok": False, "error": "ratelimited"}, 429, headers)
        if fault == "server_error":
            return JSONResponse({"ok": False, "error": "internal_error"}, 503)
        if fault == "not_json":
            return Response("<html>busy</html>", 200, media_type="text/html")
        if fault == "lost_before":
            return _cut()
        if fault == "hang":
            await self.released.wait()
        act: Callable[[dict[str, Any]], dict[str, Any]] = getattr(self, "do_" + method.replace(".", "_"))
        answer = act(arguments)
        if fault == "hang_after":
            await self.released.wait()
        return _cut() if fault == "lost_after" else JSONResponse(answer, headers={"X-OAuth-Scopes": ",".join(self.scopes)})

    async def upload(self, request: Request) -> Response:
        """Take the bytes of a file at the address that was given for it."""
        waiting = self.faults.get("upload")
        fault = waiting.popleft() if waiting else None
        if fault == "server_error":
            return Response(status_code=503)
        if fault == "lost_before":
            return _cut()
        identity = request.path_params["file"]
        assert "authorization" not in request.headers
        self.uploads[identity] = (self.uploads[identity][0], await request.body())
        return Response(f"OK - {len(self.uploads[identity][1])}")

    async def download(self, request: Request) -> Response:
        """Serve a file; who may not is led to the front page, as Slack does."""
        data = self.files.get(request.path_params["file"])
        if request.headers.get("authorization") != f"Bearer {TOKEN}" or data is None:
            return Response(status_code=302, headers={"location": "https://slack.com/"})
        return Response(data, media_type="application/octet-stream")

    def file(self, identity: str, name: str, data: bytes) -> dict[str, Any]:
        """Put a file into the workspace; returns what an event says of it."""
        self.files[identity] = data
        address = f"{self.url.removesuffix('api/')}files/{identity}"
        return {"id": identity, "name": name, "size": len(data), "url_private_download": address}

    def do_auth_test(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"ok": True, "team_id": TEAM, "user_id": BOT, "bot_id": "B0BOT"}

    def do_bots_info(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"ok": True, "bot": {"id": arguments["bot"], "app_id": APP}}

    def do_apps_connections_open(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"ok": True, "url": self.sockets.url} if self.sockets else {"ok": False, "error": "not_allowed_token_type"}

    def do_users_info(self, arguments: dict[str, Any]) -> dict[str, Any]:
        user = self.users.get(arguments["user"])
        return {"ok": True, "user": user} if user else {"ok": False, "error": "user_not_found"}

    def do_chat_postMessage(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if arguments["channel"] not in self.channels:
            return {"ok": False, "error": "channel_not_found"}
        message = {"type": "message", "user": BOT, "text": arguments["text"][:40_000], "ts": self.now()}
        message |= {name: arguments[name] for name in ("thread_ts", "metadata", "blocks") if arguments.get(name)}
        self.channels[arguments["channel"]].append(message)
        self.edits[message["ts"]] = [message["text"]]
        return {"ok": True, "channel": arguments["channel"], "ts": message["ts"], "message": message}

    def do_files_getUploadURLExternal(self, arguments: dict[str, Any]) -> dict[str, Any]:
        identity = f"F{next(self._times):08d}"
        self.uploads[identity] = (arguments["filename"], b"")
        return {"ok": True, "upload_url": f"{self.url.removesuffix('api/')}upload/{identity}", "file_id": identity}

    def do_files_completeUploadExternal(self, arguments: dict[str, Any]) -> dict[str, Any]:
        (asked,) = json.loads(arguments["files"])
        name, data = self.uploads[asked["id"]]
        if not data:
            return {"ok": False, "error": "file_not_found"}
        if arguments["channel_id"] not in self.channels:
            return {"ok": False, "error": "channel_not_found"}
        file = {"id": asked["id"], "name": name, "title": asked["title"], "size": len(data)}
        message = {"type": "message", "user": BOT, "text": arguments.get("initial_comment", ""), "ts": self.now()}
        message |= {"files": [file]} | ({"thread_ts": arguments["thread_ts"]} if arguments.get("thread_ts") else {})
        self.channels[arguments["channel_id"]].append(message)
        return {"ok": True, "files": [{"id": asked["id"], "title": asked["title"]}]}

    def sent_files(self, channel: str, thread: str | None = None) -> list[tuple[str, bytes, str]]:
        """Return the files that the app has posted: name, bytes, and the words with it."""
        shown = [m for m in self.written(channel) if thread is None or m.get("thread_ts", "") == thread]
        return [(*self.uploads[file["id"]], m["text"]) for m in shown for file in m.get("files", ())]

    def do_chat_update(self, arguments: dict[str, Any]) -> dict[str, Any]:
        found = self._find(arguments)
        if found is None:
            return {"ok": False, "error": "message_not_found"}
        if len(arguments["text"]) > 4_000:
            return {"ok": False, "error": "msg_too_long"}
        found["text"] = arguments["text"]
        if "blocks" in arguments:
            found["blocks"] = arguments["blocks"]
        self.edits[found["ts"]].append(found["text"])
        return {"ok": True, "channel": arguments["channel"], "ts": found["ts"], "text": found["text"]}

    def do_chat_delete(self, arguments: dict[str, Any]) -> dict[str, Any]:
        found = self._find(arguments)
        if found is None:
            return {"ok": False, "error": "message_not_found"}
        self.channels[arguments["channel"]].remove(found)
        return {"ok": True, "ts": found["ts"]}

    def do_conversations_history(self, arguments: dict[str, Any]) -> dict[str, Any]:
        found = [m for m in self.channels.get(arguments["channel"], []) if not m.get("thread_ts")]
        return {"ok": True, "messages": found[::-1], "has_more": False}

    def do_conversations_replies(self, arguments: dict[str, Any]) -> dict[str, Any]:
        found = [m for m in self.channels.get(arguments["channel"], []) if m.get("thread_ts") == arguments["ts"]]
        return {"ok": True, "messages": found, "has_more": False}

    def _find(self, arguments: dict[str, Any]) -> dict[str, Any] | None:
        messages = self.channels.get(arguments["channel"], [])
        return next((m for m in messages if m["ts"] == arguments["ts"] and m.get("user") == BOT), None)

    def member(self, user: str, **flags: Any) -> str:
        """Add a person."""
        self.users[user] = {"id": user, "team_id": TEAM, "is_restricted": False, "is_ultra_restricted": False, **flags}
        return user


@dataclass
class SlackPerson:
    """Somebody in Slack: what is written reaches the app as Slack sends it, signed."""

    slack: FakeSlack
    user: str
    events_url: str
    """Address of the app: everything before `/events`."""

    async def direct(self, text: str, *, thread: str = "", channel: str = "", **more: Any) -> str:
        """Write to the app; returns the message's time."""
        return await self._write(channel or f"D0{self.user}", text, "message", thread, **more)

    async def mention(self, channel: str, text: str, *, thread: str = "", **more: Any) -> str:
        """Mention the app in a channel; returns the message's time."""
        return await self._write(channel, f"<@{BOT}> {text}", "app_mention", thread, **more)

    async def _write(self, channel: str, text: str, kind: str, thread: str, **more: Any) -> str:
        body = self.event(channel, text, kind, thread, **more)
        response = await self.send(body)
        assert response.status_code == 200, response.text
        time_of: str = body["event"]["ts"]
        return time_of

    def event(self, channel: str, text: str, kind: str = "message", thread: str = "", **more: Any) -> dict[str, Any]:
        """Put a message into its channel and return the event that tells of it."""
        message: dict[str, Any] = {"type": "message", "user": self.user, "text": text, "ts": self.slack.now()}
        if thread:
            message["thread_ts"] = thread
        self.slack.channels.setdefault(channel, []).append(message)
        event = {**message, "type": kind, "channel": channel, "team": TEAM, **more}
        if kind == "message":
            event["channel_type"] = "im"
        return {
            "type": "event_callback", "team_id": TEAM, "api_app_id": APP, "event_id": f"Ev{message['ts']}",
            "event_time": int(time.time()), "authorizations": [{"team_id": TEAM, "user_id": BOT, "is_bot": True}],
            "event": event,
        }  # fmt: skip

    def press(self, channel: str, message: dict[str, Any], label: str) -> dict[str, Any]:
        """Press a button of a message; returns what Slack tells of it."""
        buttons = [e for block in message["blocks"] if block["type"] == "actions" for e in block["elements"]]
        (button,) = [one for one in buttons if one["text"]["text"] == label]
        action = {**button, "block_id": message["blocks"][-1]["block_id"], "action_ts": self.slack.now(), "type": "button"}
        return {
            "type": "block_actions", "api_app_id": APP, "team": {"id": TEAM}, "user": {"id": self.user, "team_id": TEAM},
            "channel": {"id": channel}, "message": message, "actions": [action], "trigger_id": f"{self.slack.now()}.press",
        }  # fmt: skip

    async def send_press(self, payload: dict[str, Any]) -> httpx.Response:
        """Send the press of a button to the app."""
        body = urlencode({"payload": json.dumps(payload)}).encode()
        return await post_signed(f"{self.events_url}/presses", body, "application/x-www-form-urlencoded")

    async def send(self, body: dict[str, Any], **headers: str) -> httpx.Response:
        """Send an event to the app, as Slack signs it."""
        return await post_signed(f"{self.events_url}/events", json.dumps(body).encode(), "application/json", **headers)

    async def command(self, command: str, text: str = "", *, channel: str = "") -> httpx.Response:
        """Give a slash command."""
        form = {
            "command": command, "text": text, "team_id": TEAM, "api_app_id": APP, "user_id": self.user,
            "channel_id": channel or f"D0{self.user}", "trigger_id": f"{self.slack.now()}.abc", "response_url": "https://x",
        }  # fmt: skip
        body = urlencode(form).encode()
        return await post_signed(f"{self.events_url}/commands", body, "application/x-www-form-urlencoded")


async def post_signed(url: str, body: bytes, kind: str, **headers: str) -> httpx.Response:
    """Post as Slack does."""
    timestamp = str(int(time.time()))
    digest = hmac.new(SIGNING_SECRET.encode(), f"v0:{timestamp}:".encode() + body, hashlib.sha256).hexdigest()
    signed = {"Content-Type": kind, "X-Slack-Request-Timestamp": timestamp, "X-Slack-Signature": f"v0={digest}"}
    async with httpx.AsyncClient(timeout=10) as client:
        return await client.post(url, content=body, headers={**signed, **headers})


@asynccontextmanager
async def fake_slack() -> AsyncIterator[FakeSlack]:
    """Run a workspace."""
    slack = FakeSlack()
    app = Starlette(
        routes=[
            Route("/api/{method}", slack.handle, methods=["GET", "POST"]),
            Route("/files/{file}", slack.download),
            Route("/upload/{file}", slack.upload, methods=["POST"]),
        ]
    )
    async with serve(app, "127.0.0.1", 0, shutdown_seconds=0) as port:
        slack.url = f"http://127.0.0.1:{port}/api/"
        try:
            yield slack
        finally:
            slack.released.set()


async def _arguments(request: Request) -> dict[str, Any]:
    found: dict[str, Any] = dict(request.query_params)
    body = await request.body()
    if request.headers.get("content-type", "").startswith("application/json"):
        found.update(json.loads(body or b"{}"))
    elif body:
        form = dict(httpx.QueryParams(body.decode()).items())
        found.update({name: json.loads(value) if name in ("metadata", "blocks") else value for name, value in form.items()})
    return found


def _cut() -> Response:
    """Begin an answer and never end it."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"ok": tr'
        raise ConnectionResetError

    return StreamingResponse(pieces(), headers={"Content-Length": "500"}, media_type="application/json")
