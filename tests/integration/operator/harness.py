"""An installation for tests: a real cluster and bus, the operator as a process, a store that keeps epochs in memory."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from nats.aio.client import Client

from hermes_contracts.bus_permissions import Role, service_permissions
from hermes_contracts.conversation import Usage
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.installation import (
    BUS_KEYS,
    BUS_SERVER,
    GATEWAY_SIGNING,
    InstallationSecret,
)
from hermes_contracts.store_api import (
    BuryRequest,
    CronTurn,
    CronTurns,
    CronTurnsRequest,
    Empty,
    GoneNamespacesRequest,
    GoneSessions,
    ProfileSpend,
    ProfileSpendRequest,
    ProfileSpends,
    PutCommandReply,
    PutCommandRequest,
    RaiseEpochReply,
    RaiseEpochRequest,
    SessionIdsRequest,
    SessionNamespaces,
    SessionSummaries,
    SessionSummary,
    SidRequest,
    WaitingCommands,
)
from hermes_operator.bootstrap_secrets import decode, read_bus_keys
from hermes_operator.cluster.resources import SECRETS, Resource
from hermes_service.bus import connect
from hermes_service.bus_keys import BusKeys
from hermes_service.rpc import Caller, RpcServer
from tests.integration.operator.admin import ACCOUNTS, ROOT, Admin, until

ROLES = "templates/operator/role.generated.yaml"
RBAC = "rbac.authorization.k8s.io"
RBAC_KINDS = {
    "ClusterRole": Resource(RBAC, "v1", "clusterroles"),
    "ClusterRoleBinding": Resource(RBAC, "v1", "clusterrolebindings"),
    "Role": Resource(RBAC, "v1", "roles"),
    "RoleBinding": Resource(RBAC, "v1", "rolebindings"),
}


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@dataclass
class MemoryStore:
    """The store's methods that the operator calls."""

    summaries: dict[str, SessionSummary] = field(default_factory=dict)
    raised: list[tuple[str, int]] = field(default_factory=list)
    buried: list[BuryRequest] = field(default_factory=list)
    purged: list[str] = field(default_factory=list)
    namespaces: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Session ids by namespace, for the sweep of those that are gone."""
    gone: list[tuple[str, ...]] = field(default_factory=list)
    spends: dict[str, ProfileSpend] = field(default_factory=dict)
    cron_turns: dict[str, CronTurn] = field(default_factory=dict)
    """By run; of all jobs."""
    answers: dict[str, str] = field(default_factory=dict)
    """By the job's UID."""
    commands: list[PutCommandRequest] = field(default_factory=list)
    commanded: set[str] = field(default_factory=set)
    """Sessions that a command should wake."""

    def change(self, sid: str, **fields: Any) -> None:
        blank = SessionSummary(
            sid=sid, epoch=0, last_activity=0, turns=0, running_turns=0, open_commands=0, usage=Usage(), failed_deliveries=0
        )
        self.summaries[sid] = self.summaries.get(sid, blank).model_copy(update=fields)

    async def raise_epoch(self, _caller: Caller, request: RaiseEpochRequest) -> RaiseEpochReply:
        sid = request.route.sid
        current = self.summaries[sid].epoch if sid in self.summaries else 0
        if current != request.expected:
            raise HermesError(ErrorCode.CONFLICT, f"expected epoch {request.expected}, current epoch is {current}")
        self.change(sid, epoch=current + 1)
        self.raised.append((sid, current + 1))
        return RaiseEpochReply(epoch=current + 1)

    async def find(self, _caller: Caller, request: SessionIdsRequest) -> SessionSummaries:
        return SessionSummaries(sessions=tuple(self.summaries[s] for s in request.sids if s in self.summaries))

    async def bury(self, _caller: Caller, request: BuryRequest) -> Empty:
        if request.inbound.sid not in self.summaries:
            raise HermesError(ErrorCode.NOT_FOUND, "raise its epoch first")
        self.buried.append(request)
        return Empty()

    async def purge(self, _caller: Caller, request: SidRequest) -> Empty:
        self.summaries.pop(request.sid, None)
        self.purged.append(request.sid)
        return Empty()

    async def turns_of_job(self, _caller: Caller, request: CronTurnsRequest) -> CronTurns:
        found = [self.cron_turns[run] for run in request.runs if run in self.cron_turns]
        over = [turn for turn in self.cron_turns.values() if turn.state in ("done", "failed", "dead")]
        good = sum(1 for turn in over if turn.state == "done")
        answer = self.answers.get(request.job_uid, "")
        return CronTurns(turns=tuple(found), succeeded=good, failed=len(over) - good, answer=answer)

    async def waiting_commands(self, _caller: Caller, _request: Empty) -> WaitingCommands:
        return WaitingCommands(sids=tuple(self.commanded))

    async def session_namespaces(self, _caller: Caller, _request: Empty) -> SessionNamespaces:
        return SessionNamespaces(names=tuple(sorted(self.namespaces)))

    async def gone_namespaces(self, _caller: Caller, request: GoneNamespacesRequest) -> GoneSessions:
        self.gone.append(request.gone)
        return GoneSessions(sids=tuple(sid for name in request.gone for sid in self.namespaces.pop(name, ())))

    async def put_command(self, _caller: Caller, request: PutCommandRequest) -> PutCommandReply:
        self.commands.append(request)
        return PutCommandReply(command_id="k")

    async def spend(self, _caller: Caller, request: ProfileSpendRequest) -> ProfileSpends:
        return ProfileSpends(profiles=tuple(self.spends[p] for p in request.profiles if p in self.spends))


SMALL = {
    "agent": {"resources": {"cpu": "1m", "memory": "16Mi", "ephemeralStorage": "16Mi"}},
    "sandbox": {
        "resources": {"cpu": "1m", "memory": "16Mi", "ephemeralStorage": "16Mi"},
        "workspace": {"size": "16Mi"},
    },
}
"""Resources that fit on a cluster full of other things."""


@dataclass
class Installation:
    """One installation: its namespace is its only tenant."""

    admin: Admin
    namespace: str
    image: str
    kubeconfig: Path
    folder: Path
    release: str = "hermes"
    store: MemoryStore = field(default_factory=MemoryStore)
    bus_port: int = field(default_factory=free_port)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)
    profile: str = json.dumps({"model": {"provider": "scripted", "name": "scripted"}, **SMALL})

    def environment(self, name: str) -> dict[str, str]:
        """Return the settings of an operator."""
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{ROOT / 'libs'}:{ROOT / 'operator'}",
            "HERMES_RELEASE": self.release,
            "HERMES_NAMESPACE": self.namespace,
            "HERMES_TENANTS": f'["{self.namespace}"]',
            "HERMES_POD_NAME": f"{self.namespace}-{name}",
            "HERMES_AGENT_IMAGE": self.image,
            "HERMES_SANDBOX_IMAGE": self.image,
            "HERMES_BUS_URL": f"nats://127.0.0.1:{self.bus_port}",
            "HERMES_MODELS_URL": "http://127.0.0.1:1",
            "HERMES_BUS_SELECTOR": "{}",
            "HERMES_MODELS_SELECTOR": "{}",
            "HERMES_FIRST_PROFILE": self.profile,
            "HERMES_OPERATIONS_PORT": "0",
            "HERMES_KUBECONFIG": str(self.kubeconfig),
            "HERMES_SWEEP_SECONDS": "1",
        }

    def operator(self, name: str = "one", **extra: str) -> subprocess.Popen[bytes]:
        """Start an operator."""
        environment = {**self.environment(name), **extra}
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "hermes_operator"], env=environment, stdout=log, stderr=log, cwd=self.folder
            )
        self.processes.append(process)
        return process

    async def close(self) -> None:
        """End everything that was started, and remove what is not in the namespace."""
        for client in self.clients:
            await client.close()
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        for kind in ("ClusterRoleBinding", "ClusterRole"):
            await self.admin.delete(RBAC_KINDS[kind], "", f"{self.namespace}-hermes-operator")

    def log(self, name: str = "one") -> str:
        return (self.folder / f"{name}.log").read_text()

    async def secret(self, which: InstallationSecret) -> dict[str, str]:
        async def read() -> dict[str, str] | None:
            body = await self.admin.get(SECRETS, self.namespace, which.name(self.release))
            return decode(body["data"]) if body else None

        found: dict[str, str] = await until(read, f"Secret {which.suffix} is there", 60)
        return found

    async def keys(self) -> BusKeys:
        return read_bus_keys(await self.secret(BUS_KEYS))

    async def start_bus(self) -> subprocess.Popen[bytes]:
        auth = (await self.secret(BUS_SERVER))["auth.conf"]
        config = self.folder / "nats.conf"
        config.write_text(
            f"listen: 127.0.0.1:{self.bus_port}\n{auth}\n"
            f"jetstream {{ store_dir: {self.folder / 'js'}, sync_interval: always }}\nmax_payload: 2MB\n"
        )
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / "nats-server"), "-c", str(config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.processes.append(process)
        return process

    async def client(self, role: Role) -> Client:
        permissions = service_permissions(role)
        credentials = (await self.keys()).user(role.value, permissions)
        url = f"nats://127.0.0.1:{self.bus_port}"

        async def dial() -> Client | None:
            try:
                return await connect(url, credentials, name=role.value, inbox=permissions.inbox)
            except OSError:
                return None

        found: Client = await until(dial, "the bus answers")
        self.clients.append(found)
        return found

    async def start_store(self) -> None:
        bus = await self.client(Role.STORE)
        handlers: Any = {
            "raise_epoch": self.store.raise_epoch,
            "summaries": self.store.find,
            "bury": self.store.bury,
            "purge": self.store.purge,
            "profile_spend": self.store.spend,
            "cron_turns": self.store.turns_of_job,
            "put_command": self.store.put_command,
            "waiting_commands": self.store.waiting_commands,
            "session_namespaces": self.store.session_namespaces,
            "gone_namespaces": self.store.gone_namespaces,
        }
        await RpcServer(bus, handlers).start("store")

    async def signing_seed(self) -> str:
        return (await self.secret(GATEWAY_SIGNING))["seed"]

    async def up(self, **extra: str) -> None:
        """Operator, bus and store; returns when the operator works."""
        self.operator(**extra)
        await self.start_bus()
        await self.start_store()
        await until(lambda: "leader.working" in self.log(), "the operator works", 120)


async def restricted_kubeconfig(admin: Admin, namespace: str, kubeconfig: Path, folder: Path) -> Path:
    """Apply the chart's generated roles and return a kubeconfig with a token of their service account."""
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip('helm is not on PATH: eval "$(PYTHONPATH=tools python3 -m cluster env)"')
    rendered = subprocess.run(
        [
            helm,
            "template",
            "hermes",
            str(ROOT / "charts/hermes"),
            "-n",
            namespace,
            "-s",
            "templates/operator/role.generated.yaml",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for document in yaml.safe_load_all(rendered):
        await admin.apply(RBAC_KINDS[document["kind"]], document)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "hermes-operator", "namespace": namespace}}
    await admin.apply(ACCOUNTS, account)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    path = Resource("", "v1", "serviceaccounts/hermes-operator/token")
    token = await admin.create(path, {**request, "metadata": {"namespace": namespace}})
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"] = [{"name": "operator", "user": {"token": token["status"]["token"]}}]
    config["contexts"] = [{"name": "operator", "context": {"cluster": config["clusters"][0]["name"], "user": "operator"}}]
    config["current-context"] = "operator"
    target = folder / "operator.kubeconfig"
    target.write_text(yaml.safe_dump(config))
    return target
