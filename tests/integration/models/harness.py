"""The models service in this process, over real HTTP, with the real SDKs and the scripted model behind it."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import jwt
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from prometheus_client import CollectorRegistry

from hermes_contracts.conversation import Message, ToolSpec
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.model_api import (
    MODEL_EVENT,
    STREAM_PATH,
    TOKEN_AUDIENCE,
    TOKEN_ISSUER,
    Finish,
    ModelError,
    ModelEvent,
    ModelRequest,
    Restart,
    TextDelta,
)
from hermes_contracts.store_api import (
    RECORD_USAGE,
    Descriptions,
    DescriptionsRequest,
    Empty,
    GetMediaRequest,
    LoginReply,
    LoginRequest,
    MediaPage,
    Method,
    PutLoginRequest,
    RecordUsageRequest,
    SpentReply,
    SpentRequest,
)
from hermes_gateway.models.app import endpoint
from hermes_gateway.models.file_profiles import FileProfiles
from hermes_gateway.models.metrics import ModelsMetrics
from hermes_gateway.models.retry import RetryPolicy
from hermes_gateway.models.server import serve_http
from hermes_gateway.models.settings import ModelsSettings
from scripted_model.http_server import listen
from scripted_model.memory import Memory
from scripted_model.server import Server

SID = "s" + "a" * 25
API_KEY = "sk-very-secret-0123456789abcdef"

TERMINAL = ToolSpec(
    name="terminal",
    description="Run a command",
    parameters={"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)


async def wait_for(condition: Callable[[], Any], seconds: float = 5.0) -> Any:
    """Wait until a condition holds; fail when it does not in time."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "condition did not hold in time"
        await asyncio.sleep(0.005)
    return value


NOTHING_SPENT = SpentReply(
    session_nano_usd=0, profile_day_nano_usd=0, profile_month_nano_usd=0, profile_day_tokens=0
)  # fmt: skip


class Clock:
    """Stands still unless told otherwise: only cool-downs and budgets look at it."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class FakeStore:
    """The store's side of what this service asks it. `away` makes every question but usage fail."""

    records: list[RecordUsageRequest] = field(default_factory=list)
    spent: SpentReply = NOTHING_SPENT
    media: dict[tuple[str, str], tuple[str, bytes]] = field(default_factory=dict)
    described: dict[str, str] = field(default_factory=dict)
    """What pictures show, by id."""
    logins: dict[str, tuple[int, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    away: bool = False
    page_bytes: int = 1000

    async def call(self, method: Method[Any, Any], request: Any) -> Any:
        await asyncio.sleep(0)
        if method is RECORD_USAGE:
            self.records.append(request)
            return Empty()
        self.asked.append(method.name)
        if self.away:
            raise HermesError(ErrorCode.UNAVAILABLE, "the store does not answer", retryable=True)
        return getattr(self, f"_{method.name}")(request)

    def _spent(self, request: SpentRequest) -> SpentReply:
        assert (request.namespace, request.sid) == ("team", SID)
        return self.spent

    def _get_media(self, request: GetMediaRequest) -> MediaPage:
        found = self.media.get((request.sid, request.media_id))
        if found is None:
            raise HermesError(ErrorCode.NOT_FOUND, "no such medium")
        kind, data = found
        page = data[request.offset : request.offset + self.page_bytes]
        return MediaPage(media_type=kind, total=len(data), data=base64.b64encode(page).decode())  # type: ignore[arg-type]

    def _descriptions(self, request: DescriptionsRequest) -> Descriptions:
        found = {name: self.described[name] for name in request.media_ids if name in self.described}
        return Descriptions(descriptions=found)

    def _get_login(self, request: LoginRequest) -> LoginReply:
        revision, sealed = self.logins.get(request.login, (0, ""))
        return LoginReply(revision=revision, sealed=sealed)

    def _put_login(self, request: PutLoginRequest) -> LoginReply:
        revision, _ = self.logins.get(request.login, (0, ""))
        if revision != request.expected:
            raise HermesError(ErrorCode.CONFLICT, "another replica was first")
        self.logins[request.login] = (revision + 1, request.sealed)
        return LoginReply(revision=revision + 1, sealed=request.sealed)


FAST = RetryPolicy(base_seconds=0.0, cap_seconds=0.5, overload_seconds=(0.0, 0.0, 0.0, 0.0), patience_seconds=0.1)
"""Waits for nobody: a provider that asks for more than half a second is not waited for."""

ONCE = RetryPolicy(attempts=1, overload_seconds=())


@dataclass
class Models:
    """A running models service and what tests look at."""

    url: str
    scripted_port: int
    memory: Memory
    http: httpx.AsyncClient
    private: Ed25519PrivateKey
    profiles_path: Path
    profiles: list[dict[str, Any]]
    metrics: ModelsMetrics
    store: FakeStore
    clock: Clock
    plays: int = 0

    @property
    def records(self) -> list[RecordUsageRequest]:
        return self.store.records

    def token(self, key: Ed25519PrivateKey | None = None, algorithm: str = "EdDSA", **claims: Any) -> str:
        payload: dict[str, Any] = {
            "iss": TOKEN_ISSUER, "aud": TOKEN_AUDIENCE, "sub": SID, "exp": int(time.time()) + 3600,
            "namespace": "team", "profile": "scripted", "epoch": 3, **claims,
        }  # fmt: skip
        payload = {name: value for name, value in payload.items() if value is not None}
        return jwt.encode(payload, key or self.private, algorithm=algorithm)

    def headers(self, profile: str = "scripted") -> dict[str, str]:
        return {"authorization": f"Bearer {self.token(profile=profile)}"}

    @property
    def base(self) -> str:
        """The scripted model's address, without a version."""
        return f"http://127.0.0.1:{self.scripted_port}"

    def add_profile(self, name: str, model: dict[str, Any], **secrets: dict[str, Any]) -> None:
        self.add_spec(name, {"model": model}, secrets)

    def add_spec(self, name: str, spec: dict[str, Any], secrets: dict[str, Any]) -> None:
        self.profiles[:] = [p for p in self.profiles if p["name"] != name]
        self.profiles.append({"namespace": "team", "name": name, "spec": spec, "secrets": secrets})
        self.profiles_path.write_text(yaml.safe_dump(self.profiles))

    async def events(self, request: ModelRequest, profile: str = "scripted") -> list[ModelEvent]:
        found = []
        async with self.http.stream(
            "POST", STREAM_PATH, content=request.model_dump_json(), headers=self.headers(profile)
        ) as response:
            assert response.status_code == 200, await response.aread()
            assert response.headers["content-type"] == "application/x-ndjson"
            async for line in response.aiter_lines():
                found.append(MODEL_EVENT.validate_json(line))
        assert sum(isinstance(e, (Finish, ModelError)) for e in found) == 1
        assert isinstance(found[-1], (Finish, ModelError))
        return found

    def shown_keys(self) -> list[str]:
        """The keys that the model behind the service was shown, request by request."""
        assert self.memory.kept is not None
        names = ("authorization", "x-api-key")
        return [
            next(request.headers[name] for name in names if name in request.headers).removeprefix("Bearer ")
            for request in self.memory.kept
        ]

    async def play(self, *steps: dict[str, Any], profile: str = "scripted", **fields: Any) -> list[ModelEvent]:
        """Play a script once: its steps' counters are its own, whichever wire and model it is played on."""
        self.plays += 1
        return await self.events(ask(script(*steps, id=f"play-{self.plays}"), **fields), profile)

    async def error(self, *steps: dict[str, Any], profile: str = "scripted") -> ModelError:
        last = (await self.play(*steps, profile=profile))[-1]
        assert isinstance(last, ModelError), last
        return last


def script(*steps: dict[str, Any], **fields: Any) -> str:
    return "#script " + json.dumps({"steps": steps, **fields})


def ask(*messages: str | Message, **fields: Any) -> ModelRequest:
    return ModelRequest(
        turn_id=fields.pop("turn_id", "t1"),
        step=fields.pop("step", 0),
        system=fields.pop("system", "You are Hermes."),
        messages=tuple(Message.user(m) if isinstance(m, str) else m for m in messages),
        **fields,
    )


def text(events: list[ModelEvent]) -> str:
    """Return the answer: a restart voids what came before it."""
    found = ""
    for event in events:
        if isinstance(event, Restart):
            found = ""
        elif isinstance(event, TextDelta):
            found += event.text
    return found


def secret(hosts: str = "127.0.0.1", key: str = API_KEY, kind: str = "hermes.run/provider") -> dict[str, Any]:
    return {"type": kind, "data": {"api-key": key, "hosts": hosts}}


@asynccontextmanager
async def running(tmp_path: Path, *, policy: RetryPolicy = FAST, **overrides: Any) -> AsyncIterator[Models]:
    """Run the service on free ports. Settings may be overridden."""
    private = Ed25519PrivateKey.generate()
    public = tmp_path / "public.pem"
    public.write_bytes(
        private.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    upstream = Server(keep_requests=True)
    async with listen(upstream.handle, "127.0.0.1", 0) as scripted_port:
        profiles_path = tmp_path / "profiles.yaml"
        profiles_path.write_text("[]")
        settings = ModelsSettings(
            **{
                "token_public_key_file": public,
                "profiles_file": profiles_path,
                "tenants": ("team",),
                "scripted_url": f"http://127.0.0.1:{scripted_port}/v1",
                "allowed_private_hosts": ("127.0.0.1",),
                **overrides,
            }
        )
        metrics = ModelsMetrics(CollectorRegistry())
        store, clock = FakeStore(), Clock()
        http = httpx.AsyncClient()
        models = Models("", scripted_port, upstream.memory, http, private, profiles_path, [], metrics, store, clock)
        models.add_profile("scripted", {"provider": "scripted", "name": "scripted"})
        reference = {"secretRef": {"name": "key"}}
        base = f"http://127.0.0.1:{scripted_port}"
        models.add_profile(
            "openai", {"provider": "openai", "name": "gpt", "baseUrl": base + "/v1", **reference}, key=secret()
        )
        models.add_profile(
            "anthropic", {"provider": "anthropic", "name": "claude-sonnet-4", "baseUrl": base, **reference}, key=secret()
        )

        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        files = FileProfiles(profiles_path)
        async with endpoint(settings, files, store, metrics, policy=policy, clock=clock) as application:
            serving = asyncio.create_task(serve_http(application, "127.0.0.1", 0, 1, port.set_result))
            await asyncio.wait({serving, port}, return_when=asyncio.FIRST_COMPLETED)
            models.url = f"http://127.0.0.1:{port.result()}"
            async with httpx.AsyncClient(base_url=models.url, timeout=30) as models.http:
                yield models
            serving.cancel()
            await asyncio.wait({serving})
