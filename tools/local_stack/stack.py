"""Everything but agents: servers, our services, the scripted model, and the files that hold their keys."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import nats.errors
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nats.aio.client import Client

from hermes_contracts import projection, subjects
from hermes_contracts.access import ApiKeyRecord, ApiKeys, SlackAccount, SlackAccounts, WebhookRoute, WebhookRoutes
from hermes_contracts.bus_permissions import Role, service_permissions
from hermes_contracts.crd.profile import ModelSettings, ProfileSpec
from hermes_contracts.projection import ProfileProjection
from hermes_operator.credentials import Minter
from hermes_service import bus, signing, streams
from hermes_service.bus_keys import BusKeys
from local_stack import servers
from local_stack.processes import Process, free_port, http_ok, tcp_open

NAMESPACE = "dev"
NAMESPACE_UID = "00000000-0000-0000-0000-000000000000"
ROOT = Path(__file__).resolve().parents[2]
SOURCES = [str(ROOT / folder) for folder in ("libs", "agent_image", "gateway_image", "tools", "sandbox_image")]


@dataclass(frozen=True)
class LocalProfile:
    """A Profile with the Secrets it refers to: `secrets` maps a name to {type, data}."""

    name: str = "default"
    spec: ProfileSpec = field(
        default_factory=lambda: ProfileSpec(model=ModelSettings(provider="scripted", name="scripted-1"))
    )
    secrets: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


@dataclass
class Stack:
    """A running installation on loopback. `api_key` belongs to owner `dev`."""

    folder: Path
    keys: BusKeys
    database: servers.Database
    processes: dict[str, Process]
    ports: dict[str, int]
    api_key: str
    signing_seed: str
    minter: Minter
    operator_bus: Client
    profiles: tuple[LocalProfile, ...]

    @property
    def bus_url(self) -> str:
        """Address of NATS."""
        return f"nats://127.0.0.1:{self.ports['nats']}"

    @property
    def api_url(self) -> str:
        """Address of the gateway's API."""
        return f"http://127.0.0.1:{self.ports['api']}"

    @property
    def webhooks_url(self) -> str:
        """Address of the gateway's webhooks."""
        return f"http://127.0.0.1:{self.ports['webhooks']}"

    @property
    def models_url(self) -> str:
        """Address of the models service."""
        return f"http://127.0.0.1:{self.ports['models']}"

    @property
    def scripted_url(self) -> str:
        """Address of the scripted model."""
        return f"http://127.0.0.1:{self.ports['scripted-model']}"

    async def ready(self, name: str) -> None:
        """Wait until a service of ours says that it is ready."""
        await self.processes[name].until(lambda: http_ok(self.ports[f"{name}-operations"], "/readyz"), 60)

    async def restart(self, name: str) -> None:
        """Kill a process with SIGKILL and start it again; returns once it is ready."""
        process = self.processes[name]
        await process.kill()
        if name == "postgres":
            await servers.start_postgres(self.database)
            return
        await process.start()
        if name == "nats":
            await process.until(lambda: tcp_open(self.ports["nats"]))
        elif f"{name}-operations" in self.ports:
            await self.ready(name)


def _python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


def _write_keys(folder: Path, keys: BusKeys, api_key: str, webhooks: tuple[WebhookRoute, ...]) -> Minter:
    for role in Role:
        (folder / f"bus-{role}.creds").write_text(keys.user(role, service_permissions(role)).render())
    token_key = Ed25519PrivateKey.generate()
    public = token_key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / "token-public.pem").write_bytes(public)
    record = ApiKeyRecord(
        id="dev",
        sha256=hashlib.sha256(api_key.encode()).hexdigest(),
        owner="dev",
        namespace=NAMESPACE,
        profiles=("default",),
        scopes=("chat", "sessions", "jobs"),
    )
    other = record.model_copy(
        update={"id": "other", "owner": "other", "sha256": hashlib.sha256(f"{api_key}-other".encode()).hexdigest()}
    )
    (folder / "keys.json").write_text(ApiKeys(keys=(record, other)).model_dump_json())
    (folder / "webhooks.json").write_text(WebhookRoutes(routes=webhooks).model_dump_json())
    private = token_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Minter(keys, private.decode())


def _write_profiles(folder: Path, profiles: tuple[LocalProfile, ...]) -> None:
    documents = [
        {
            "namespace": NAMESPACE,
            "name": p.name,
            "spec": p.spec.model_dump(by_alias=True, mode="json", exclude_none=True),
            "secrets": p.secrets,
        }
        for p in profiles
    ]
    (folder / "profiles.yaml").write_text(json.dumps(documents))


def _service(folder: Path, name: str, ports: dict[str, int], settings: Mapping[str, object]) -> Process:
    ports[f"{name}-operations"] = free_port()
    environment = {
        "PYTHONPATH": ":".join(SOURCES),
        "HERMES_BUS_URL": f"nats://127.0.0.1:{ports['nats']}",
        "HERMES_BUS_CREDENTIALS_FILE": str(folder / f"bus-{name}.creds"),
        "HERMES_OPERATIONS_HOST": "127.0.0.1",
        "HERMES_OPERATIONS_PORT": str(ports[f"{name}-operations"]),
        **{f"HERMES_{key}": str(value) for key, value in settings.items()},
    }
    return Process(name, _python("-m", "hermes_gateway", "--role", name), folder, environment)


def _services(folder: Path, database: servers.Database, ports: dict[str, int]) -> list[Process]:
    store = {
        "DATABASE_HOST": "127.0.0.1",
        "DATABASE_PORT": database.port,
        "DATABASE_OWNER_PASSWORD_FILE": folder / "owner-password",
        "DATABASE_SERVICE_PASSWORD_FILE": folder / "service-password",
    }
    models = {
        "LISTEN_HOST": "127.0.0.1",
        "LISTEN_PORT": ports["models"],
        "TOKEN_PUBLIC_KEY_FILE": folder / "token-public.pem",
        "PROFILES_FILE": folder / "profiles.yaml",
        "SCRIPTED_URL": f"http://127.0.0.1:{ports['scripted-model']}/v1",
        "ALLOWED_PRIVATE_HOSTS": '["127.0.0.1"]',
        "TENANTS": f'["{NAMESPACE}"]',
    }
    gateway = {
        "API_HOST": "127.0.0.1",
        "API_PORT": ports["api"],
        "WEBHOOKS_HOST": "127.0.0.1",
        "WEBHOOKS_PORT": ports["webhooks"],
        "API_KEYS_FILE": folder / "keys.json",
        "WEBHOOKS_FILE": folder / "webhooks.json",
        "SLACK_FILE": folder / "slack.json",
        "TELEGRAM_FILE": folder / "telegram.json",
        "SIGNING_SEED_FILE": folder / "signing.seed",
    }
    return [
        _service(folder, "store", ports, store),
        _service(folder, "models", ports, models),
        _service(folder, "gateway", ports, gateway),
        Process(
            "scripted-model",
            _python("-m", "scripted_model", "--port", str(ports["scripted-model"])),
            folder,
            {"PYTHONPATH": ":".join(SOURCES)},
        ),
    ]


async def _publish_profiles(client: Client, profiles: tuple[LocalProfile, ...]) -> None:
    bucket = await client.jetstream().key_value(subjects.PROFILES_BUCKET)
    for profile in profiles:
        entry = ProfileProjection(
            namespace=NAMESPACE,
            namespace_uid=NAMESPACE_UID,
            name=profile.name,
            model=profile.spec.model.name,
            provider=profile.spec.model.provider,
            choices=tuple(choice.name for choice in profile.spec.model.choices),
            ready=True,
            message="",
            approvers=profile.spec.approvals.approvers,
            approvals=profile.spec.approvals.mode,
            created_at=time.time(),
        )
        await bucket.put(projection.key(NAMESPACE, profile.name), entry.model_dump_json().encode())


@contextmanager
def stack_folder() -> Iterator[Path]:
    """Make a temporary folder that PostgreSQL's own user may pass through."""
    with tempfile.TemporaryDirectory(prefix="hermes-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


@asynccontextmanager
async def running_stack(
    folder: Path,
    profiles: tuple[LocalProfile, ...] = (LocalProfile(),),
    webhooks: tuple[WebhookRoute, ...] = (),
    slack: tuple[SlackAccount, ...] = (),
) -> AsyncIterator[Stack]:
    """Start everything in `folder` and stop it afterwards. Ready when every service says so."""
    ports = {name: free_port() for name in ("nats", "api", "webhooks", "models", "scripted-model")}
    keys, api_key, seed = BusKeys.generate(), secrets.token_urlsafe(24), signing.new_signing_seed()
    minter = _write_keys(folder, keys, api_key, webhooks)
    (folder / "signing.seed").write_text(seed)
    (folder / "slack.json").write_text(SlackAccounts(accounts=slack).model_dump_json())
    _write_profiles(folder, profiles)
    database = await asyncio.to_thread(servers.create_database, folder, free_port())
    (folder / "service-password").write_text(database.service_password)
    (folder / "owner-password").write_text(database.owner_password)
    everything = [servers.bus_process(folder, keys, ports["nats"]), database.process, *_services(folder, database, ports)]
    processes = {process.name: process for process in everything}
    client: Client | None = None
    try:
        async with asyncio.TaskGroup() as group:
            for process in everything:
                group.create_task(process.start())
        await processes["nats"].until(lambda: tcp_open(ports["nats"]))
        client = await bus.connect(
            f"nats://127.0.0.1:{ports['nats']}",
            minter.own_bus_user(),
            name="local-operator",
            inbox=subjects.service_inbox("operator"),
        )
        await streams.ensure_streams(client.jetstream())
        await _publish_profiles(client, profiles)
        stack = Stack(folder, keys, database, processes, ports, api_key, seed, minter, client, profiles)
        for name in ("store", "models", "gateway"):
            await stack.ready(name)
        yield stack
    finally:
        if client is not None:
            with suppress(nats.errors.Error):
                await client.close()
        for name in ("gateway", "models", "store", "scripted-model", "nats", "postgres"):
            await processes[name].stop(5)
