"""From a manifest to an outgoing answer: real API server, operator, bus, store, agent, sandbox; the kubelet is played by the
test."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_contracts import subjects
from hermes_contracts.bus_permissions import Role
from hermes_contracts.envelopes import Outbound
from hermes_contracts.installation import BUS_STORE
from hermes_operator.cluster.resources import CRON_JOBS, SECRETS
from tests.integration.operator.admin import ROOT, until
from tests.integration.operator.harness import Installation
from tests.integration.operator.test_cron_story import job, runs, status
from tests.integration.store.harness import Postgres, StoreProcess

pytestmark = pytest.mark.timeout(300)


@asynccontextmanager
async def real_store(installation: Installation) -> AsyncIterator[None]:
    """A store process on a PostgreSQL of its own."""
    with tempfile.TemporaryDirectory(prefix="hermes-cron-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        postgres, owner, service = Postgres(folder / "pg"), secrets.token_hex(16), secrets.token_hex(16)
        (folder / "owner").write_text(owner)
        (folder / "service").write_text(service)
        (folder / "store.creds").write_text((await installation.secret(BUS_STORE))["bus.creds"])
        await asyncio.to_thread(postgres.create)
        await asyncio.to_thread(postgres.start)
        store = StoreProcess(
            {
                "PATH": os.environ["PATH"],
                "PYTHONPATH": f"{ROOT / 'libs'}:{ROOT / 'gateway_image'}",
                "HERMES_DATABASE_HOST": "127.0.0.1",
                "HERMES_DATABASE_PORT": str(postgres.port),
                "HERMES_DATABASE_NAME": "hermes",
                "HERMES_DATABASE_OWNER_PASSWORD_FILE": str(folder / "owner"),
                "HERMES_DATABASE_SERVICE_PASSWORD_FILE": str(folder / "service"),
                "HERMES_BUS_URL": f"nats://127.0.0.1:{installation.bus_port}",
                "HERMES_BUS_CREDENTIALS_FILE": str(folder / "store.creds"),
                "HERMES_OPERATIONS_HOST": "127.0.0.1",
            },
            installation.folder / "store.log",
        )
        try:
            with psycopg.connect(postgres.admin("postgres"), autocommit=True) as connection:
                connection.execute(f"create role hermes_owner login createrole password '{owner}'")  # type: ignore[arg-type]
                connection.execute("create database hermes owner hermes_owner")
            await asyncio.to_thread(store.start)
            yield
        finally:
            store.kill()
            postgres.kill()


@asynccontextmanager
async def pod_of(installation: Installation, session: str, folder: Path) -> AsyncIterator[None]:
    """What the kubelet starts in a session's pod: its sandbox and its agent, with the files of its Secret."""
    folder.mkdir()
    (folder / "workspace").mkdir()
    body = await until(
        lambda: installation.admin.get(SECRETS, installation.namespace, f"{session}-1"), "the Secret is there"
    )
    for name, data in body["data"].items():
        (folder / name).write_text(base64.b64decode(data).decode())
    config = json.loads((folder / "session.json").read_text())
    places = {"socket_path": str(folder / "exec.sock"), "workspace_path": str(folder / "workspace")}
    (folder / "session.json").write_text(json.dumps({**config, **places}))
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT / 'libs'}:{ROOT / 'agent_image'}",
        "HERMES_SESSION_DIR": str(folder),
    }
    with (folder / "log").open("ab") as log:
        sandbox = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", "-E", str(ROOT / "sandbox_image"), "--socket", places["socket_path"],
            "--workspace", places["workspace_path"], stderr=log,
        )  # fmt: skip
        agent = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "hermes_agent", env=environment, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        for process in (agent, sandbox):
            if process.returncode is None:
                process.kill()
            await process.wait()


async def test_a_script_runs_in_the_sandbox_and_its_output_is_stored_and_on_its_way(installation: Installation) -> None:
    installation.operator()
    await installation.start_bus()
    async with real_store(installation):
        await until(lambda: "leader.working" in installation.log(), "the operator works", 120)
        deliver = [{"channel": "webhook", "account": "alerts"}, {"channel": "webhook", "account": "reports", "chat": "x"}]
        script = "echo $((6 * 7)) tickets > made.txt; cat made.txt"
        await installation.admin.apply(
            CRON_JOBS, job(installation, run_now="1", prompt="", noAgent=True, script=script, deliver=deliver)
        )
        [made] = await until(lambda: runs(installation), "the run's session is there")
        async with pod_of(installation, made["metadata"]["name"], installation.folder / "pod"):
            found = await until(lambda: _over(installation), "the run has ended", 90)
        assert (found["lastRun"]["outcome"], found["lastRun"]["delivery"]) == ("Succeeded", "Pending")
        assert (found["succeeded"], found["failed"], found["active"]) == (1, 0, 0)
        sent = await _outbound(installation, made["metadata"]["labels"]["hermes.run/sid"])
        assert [(p.account, p.chat, p.text, p.namespace) for p in sent] == [
            ("alerts", "report", "42 tickets", installation.namespace),
            ("reports", "x", "42 tickets", installation.namespace),
        ]


async def _over(installation: Installation) -> dict[str, Any] | None:
    found = await status(installation)
    return found if found.get("lastRun", {}).get("outcome") in ("Succeeded", "Silent", "Failed", "Lost") else None


async def _outbound(installation: Installation, sid: str) -> list[Outbound]:
    js = (await installation.client(Role.OPERATOR)).jetstream()
    found, sequence = list[Outbound](), 1
    while len(found) < 2:
        message = await js.get_msg(subjects.OUT_STREAM, seq=sequence, subject=subjects.outbound("webhook", sid), next=True)
        found.append(Outbound.model_validate_json(message.data or b""))
        sequence = (message.seq or sequence) + 1
    return found
