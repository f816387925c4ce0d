"""What the people and processes around an operator do, in few words."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from typing import Any

from nats.aio.client import Client

from hermes_contracts import subjects
from hermes_contracts.envelopes import HEADER_MESSAGE_ID, HEADER_ROUTE, HEADER_SIGNATURE, Inbound, Route, Wake
from hermes_contracts.names import (
    API_VERSION,
    RoutingKey,
    conversation_id,
    credentials_name,
    session_id,
    session_id_of_object,
)
from hermes_contracts.store_api import AgentState, ReportRequest
from hermes_operator.cluster.resources import EVENTS, NAMESPACES, PODS, PROFILES, SECRETS, SESSIONS
from hermes_service.bus import BusCredentials, connect
from hermes_service.signing import Signer
from tests.integration.operator.admin import until
from tests.integration.operator.harness import Installation


class FakeAgent:
    """Does on the bus what an agent does, with the credentials that its pod was given."""

    def __init__(self, installation: Installation, session: str, epoch: int) -> None:
        self.installation, self.session, self.epoch = installation, session, epoch
        self.orders: list[dict[str, Any]] = []
        self.client: Client

    async def start(self) -> FakeAgent:
        name = credentials_name(self.session, self.epoch)
        read = lambda: self.installation.admin.get(SECRETS, self.installation.namespace, name)  # noqa: E731
        body = await until(read, f"Secret {name} is there")
        files = {key: base64.b64decode(value).decode() for key, value in body["data"].items()}
        self.config = json.loads(files["session.json"])
        self.sid = self.config["sid"]
        credentials = BusCredentials.parse(files["bus.creds"])
        self.client = await connect(
            self.config["bus_url"], credentials, name="agent", inbox=subjects.agent_inbox(self.sid, self.epoch)
        )
        self.installation.clients.append(self.client)
        await self.client.subscribe(subjects.control_epoch(self.sid, self.epoch), cb=self._take_order)
        return self

    async def _take_order(self, message: Any) -> None:
        self.orders.append(json.loads(message.data))

    async def report(self, state: AgentState) -> None:
        report = ReportRequest(state=state, pod="pod", startup_milliseconds={"imports": 200.0} if state == "ready" else {})
        subject = subjects.agent_store(self.sid, self.epoch, "report")
        await self.client.publish(subject, report.model_dump_json().encode())
        await self.client.flush()

    async def pull(self) -> str:
        js = self.client.jetstream()
        stream, name = subjects.in_stream(self.sid), subjects.consumer(self.sid, self.epoch)
        subscription = await js.pull_subscribe_bind(name, stream)
        [message] = await subscription.fetch(1, timeout=5)
        await message.ack_sync()
        return str(message.data.decode())


async def session(installation: Installation, name: str) -> dict[str, Any]:
    body = await installation.admin.get(SESSIONS, installation.namespace, name)
    assert body is not None, f"no session {name}"
    return body


async def state(installation: Installation, name: str) -> str:
    return str((await session(installation, name)).get("status", {}).get("state", ""))


async def reaches(installation: Installation, name: str, wanted: str, seconds: float = 30) -> dict[str, Any]:
    async def check() -> dict[str, Any] | None:
        body = await session(installation, name)
        return body if body.get("status", {}).get("state") == wanted else None

    found: dict[str, Any] = await until(check, f"session {name} is {wanted}", seconds)
    return found


async def change(installation: Installation, name: str, **spec: Any) -> None:
    """Edit a session's spec as a person does."""

    async def edit() -> bool:
        body = await session(installation, name)
        body["spec"].update(spec)
        await installation.admin.replace(SESSIONS, body)
        return True

    await until(edit, f"session {name} is changed")


async def condition(installation: Installation, name: str, kind: str) -> dict[str, Any]:
    body = await session(installation, name)
    found = [c for c in body.get("status", {}).get("conditions", []) if c["type"] == kind]
    return found[0] if found else {}


async def events(installation: Installation) -> set[str]:
    return {e["reason"] for e in await installation.admin.list(EVENTS, installation.namespace)}


async def pods(installation: Installation) -> list[str]:
    return [p["metadata"]["name"] for p in await installation.admin.list(PODS, installation.namespace)]


async def make_session(installation: Installation, name: str, **spec: Any) -> str:
    manifest = {
        "apiVersion": API_VERSION,
        "kind": "HermesSession",
        "metadata": {"name": name, "namespace": installation.namespace},
        "spec": {"profileRef": {"name": "default"}, **spec},
    }
    body = await installation.admin.create(SESSIONS, manifest)
    return session_id_of_object(body["metadata"]["uid"])


async def publish(installation: Installation, gateway: Client, route: Route, text: str, *, wake: bool = True) -> None:
    subject, identity = subjects.inbound(route.sid), f"{route.sid}/api/a/{hashlib.sha256(text.encode()).hexdigest()}"
    facts = route.model_dump_json()
    signature = Signer(await installation.signing_seed()).sign(subject, identity, facts, text.encode())
    headers = {HEADER_MESSAGE_ID: identity, HEADER_ROUTE: facts, HEADER_SIGNATURE: signature}
    await gateway.jetstream().publish(subject, text.encode(), headers=headers)
    if wake:
        await gateway.publish(subjects.WAKE, Wake(route=route).model_dump_json().encode())


async def write(installation: Installation, gateway: Client, route: Route, text: str) -> Inbound:
    """Send what a gateway sends when a person writes."""
    conversation = conversation_id(route.sid)
    message = Inbound(
        sid=route.sid, conversation=conversation, channel="api", account="a", update_id=text, owner="ann", text=text,
        received_at=time.time(),
    )  # fmt: skip
    await publish(installation, gateway, route, message.model_dump_json())
    return message


async def events_about(installation: Installation, reason: str) -> list[str]:
    found = await installation.admin.list(EVENTS, installation.namespace)
    return [str(e.get("note")) for e in found if e["reason"] == reason]


async def change_profile(installation: Installation, **spec: Any) -> None:
    """Edit the Profile as a person does."""

    async def edit() -> bool:
        body = await installation.admin.get(PROFILES, installation.namespace, "default")
        assert body is not None
        body["spec"].update(spec)
        await installation.admin.replace(PROFILES, body)
        return True

    await until(edit, "the Profile is changed")


async def route_for(installation: Installation, chat: str, profile: str = "default") -> Route:
    namespace = await installation.admin.get(NAMESPACES, "", installation.namespace)
    assert namespace is not None
    key = RoutingKey(channel="api", account="a", chat=chat)
    sid = session_id(namespace["metadata"]["uid"], profile, key)
    return Route(sid=sid, namespace=installation.namespace, profile=profile, owner="ann", key=key)
