"""A real PostgreSQL, a real nats-server with JWT authentication and store processes, on free ports in a temporary folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from nats.aio.client import Client

from hermes_contracts.bus_permissions import Permissions, Role, agent_permissions, service_permissions
from hermes_contracts.envelopes import Inbound, Route
from hermes_contracts.names import RoutingKey, conversation_id, session_id
from hermes_contracts.store_api import RAISE_EPOCH, RaiseEpochRequest
from hermes_contracts.subjects import agent_inbox, service_inbox
from hermes_service.bus import connect
from hermes_service.bus_keys import BusKeys
from hermes_service.rpc import StoreClient, agent_store_client, service_store_client
from hermes_service.streams import ensure_streams
from local_stack.servers import postgres_binaries

ROOT = Path(__file__).resolve().parents[3]
PG_BIN = postgres_binaries()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(check: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if check():
            return
        threading.Event().wait(0.05)
    raise AssertionError(f"{what}: not within {seconds} s")


async def eventually(check: Callable[[], bool], what: str, seconds: float = 15.0) -> None:
    async with asyncio.timeout(seconds) as limit:
        while not check():
            await asyncio.sleep(0.02)
    assert not limit.expired(), what


def listening(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.5):
        return True
    return False


@dataclass
class Postgres:
    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def _as_postgres(self, *command: str) -> list[str]:
        return (
            ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]
            if os.getuid() == 0
            else [*command]
        )

    def create(self) -> None:
        self.folder.mkdir(mode=0o755)
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        initdb = [str(PG_BIN / "initdb"), "-D", str(self.folder / "data"), "-U", "postgres", "-A", "trust", "--no-sync"]
        subprocess.run(self._as_postgres(*initdb), check=True, capture_output=True, cwd="/")
        with (self.folder / "data" / "pg_hba.conf").open("w") as hba:
            hba.write("host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n")

    def start(self) -> None:
        command = [
            str(PG_BIN / "postgres"),
            "-D",
            str(self.folder / "data"),
            "-p",
            str(self.port),
            "-k",
            "",
            "-c",
            "listen_addresses=127.0.0.1",
        ]
        log = (self.folder.parent / "postgres.log").open("ab")
        self.process = subprocess.Popen(self._as_postgres(*command), stdout=log, stderr=log, cwd="/", start_new_session=True)
        log.close()
        wait_until(self.answers, "PostgreSQL starts")

    def answers(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.admin("postgres"), connect_timeout=1):
            return True
        return False

    def admin(self, database: str) -> str:
        return f"host=127.0.0.1 port={self.port} user=postgres dbname={database}"

    def kill(self) -> None:
        """SIGKILL to the postmaster and every backend: a power cut without the loss of the disk."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


@dataclass
class Nats:
    folder: Path
    keys: BusKeys
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True)
        config = self.folder / "nats.conf"
        config.write_text(
            f"listen: 127.0.0.1:{self.port}\njetstream {{ store_dir: {self.folder / 'js'}, sync_interval: always }}\n"
            + self.keys.server_config()
        )
        log = (self.folder / "nats.log").open("ab")
        binary = Path(sys.executable).parent / "nats-server"
        self.process = subprocess.Popen([str(binary), "-c", str(config)], stdout=log, stderr=log)
        log.close()
        wait_until(lambda: listening(self.port), "nats-server starts")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@dataclass
class StoreProcess:
    environment: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    operations: int = 0

    def start(self, *, wait: bool = True) -> None:
        self.operations = free_port()
        environment = {**self.environment, "HERMES_OPERATIONS_PORT": str(self.operations)}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hermes_gateway", "--role", "store"], env=environment, stdout=log, stderr=log
            )
        if wait:
            wait_until(self.ready, f"the store is ready; see {self.log}")

    def ready(self) -> bool:
        assert self.process is not None and self.process.poll() is None, self.log.read_text()[-3000:]
        return self.get("/readyz")[0] == 200

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.operations}{path}", timeout=1) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def terminate(self) -> int:
        assert self.process is not None
        self.process.terminate()
        code = self.process.wait(timeout=20)
        self.process = None
        return code


@dataclass
class World:
    """Everything a test needs: processes, and clients with the credentials their roles have."""

    folder: Path
    postgres: Postgres
    nats: Nats
    keys: BusKeys
    database: str = ""
    _clients: list[Client] = field(default_factory=list)

    def new_database(self) -> str:
        self.database = f"hermes_{secrets.token_hex(4)}"
        with psycopg.connect(self.postgres.admin("postgres"), autocommit=True) as connection:
            connection.execute(f"create database {self.database} owner hermes_owner")  # type: ignore[arg-type]
        return self.database

    def store(self, name: str = "store", **settings: str) -> StoreProcess:
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": ":".join(str(ROOT / part) for part in ("libs", "gateway_image")),
            "HERMES_DATABASE_HOST": "127.0.0.1",
            "HERMES_DATABASE_PORT": str(self.postgres.port),
            "HERMES_DATABASE_NAME": self.database,
            "HERMES_DATABASE_OWNER_PASSWORD_FILE": str(self.folder / "owner-password"),
            "HERMES_DATABASE_SERVICE_PASSWORD_FILE": str(self.folder / "service-password"),
            "HERMES_BUS_URL": self.nats.url,
            "HERMES_BUS_CREDENTIALS_FILE": str(self.folder / "store.creds"),
            "HERMES_OPERATIONS_HOST": "127.0.0.1",
            **settings,
        }
        return StoreProcess(environment, self.folder / f"{name}-{self.database}.log")

    def rows(self, query: str, *arguments: object) -> list[tuple[object, ...]]:
        """Look into the database as its superuser."""
        with psycopg.connect(self.postgres.admin(self.database)) as connection:
            connection.execute("set search_path = hermes")
            return connection.execute(query, arguments).fetchall()  # type: ignore[arg-type]

    def rows_change(self, query: str, *arguments: object) -> None:
        with psycopg.connect(self.postgres.admin(self.database)) as connection:
            connection.execute("set search_path = hermes")
            connection.execute(query, arguments)  # type: ignore[arg-type]

    async def client(self, name: str, permissions: Permissions, inbox: str) -> Client:
        client = await connect(self.nats.url, self.keys.user(name, permissions), name=name, inbox=inbox)
        self._clients.append(client)
        return client

    async def agent(self, sid: str, epoch: int, *, patience_seconds: float = 60.0) -> StoreClient:
        bus = await self.client(f"{sid}-{epoch}", agent_permissions(sid, epoch), agent_inbox(sid, epoch))
        return agent_store_client(bus, sid, epoch, patience_seconds=patience_seconds)

    async def service(self, role: Role, *, patience_seconds: float = 60.0) -> StoreClient:
        bus = await self.client(role, service_permissions(role), service_inbox(role))
        return service_store_client(bus, role, patience_seconds=patience_seconds)

    async def witness(self) -> Client:
        """A client that may do everything."""
        return await self.client("witness", Permissions((">",), (">",), "_INBOX.witness"), "_INBOX.witness")

    async def close_clients(self) -> None:
        for client in self._clients:
            await client.close()
        self._clients.clear()


@dataclass
class Session:
    """A made-up session and its messages."""

    sid: str
    route: Route
    conversation: str

    def inbound(self, update_id: str, text: str = "hello", channel: str | None = None) -> Inbound:
        return Inbound(
            sid=self.sid,
            conversation=self.conversation,
            channel=channel or self.route.key.channel,
            account=self.route.key.account,
            update_id=update_id,
            owner=self.route.owner,
            text=text,
            received_at=time.time(),
        )


def new_session(channel: str = "webhook", owner: str = "ada") -> Session:
    chat = secrets.token_hex(8)
    key = RoutingKey(channel=channel, account="build", chat=chat, thread="7")
    sid = session_id("namespace-uid", "default", key)
    route = Route(sid=sid, namespace="team", profile="default", owner=owner, key=key)
    return Session(sid, route, conversation_id(chat))


async def awake(world: World, session: Session, expected: int = 0) -> int:
    operator = await world.service(Role.OPERATOR)
    return (await operator.call(RAISE_EPOCH, RaiseEpochRequest(route=session.route, expected=expected))).epoch


@contextmanager
def running_servers() -> Iterator[World]:
    """Start one PostgreSQL with the owner role and one nats-server with the streams."""
    with tempfile.TemporaryDirectory(prefix="hermes-store-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        keys = BusKeys.generate()
        world = World(folder, Postgres(folder / "pg"), Nats(folder / "nats", keys), keys)
        owner, service = secrets.token_hex(16), secrets.token_hex(16)
        (folder / "owner-password").write_text(owner + "\n")
        (folder / "service-password").write_text(service)
        (folder / "store.creds").write_text(keys.user("store", service_permissions(Role.STORE)).render())
        try:
            world.postgres.create()
            world.postgres.start()
            with psycopg.connect(world.postgres.admin("postgres"), autocommit=True) as connection:
                connection.execute(f"create role hermes_owner login createrole password '{owner}'")  # type: ignore[arg-type]
            world.nats.start()
            asyncio.run(_make_streams(world))
            yield world
        finally:
            world.nats.kill()
            world.postgres.kill()


async def _make_streams(world: World) -> None:
    witness = await world.witness()
    await ensure_streams(witness.jetstream())
    await world.close_clients()
