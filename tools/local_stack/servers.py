"""NATS and PostgreSQL as child processes, configured as the chart configures them."""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from hermes_contracts import installation
from hermes_service.bus_keys import BusKeys
from local_stack.processes import Process, StartFailed, tcp_open


def bus_process(folder: Path, keys: BusKeys, port: int) -> Process:
    """Return a NATS server with our accounts; its data survive a restart of the process."""
    binary = shutil.which("nats-server", path=f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}")
    if binary is None:
        raise StartFailed("nats-server is missing: install the development dependencies (make setup)")
    config = folder / "nats.conf"
    config.write_text(
        f'listen: "127.0.0.1:{port}"\nmax_payload: 1MB\n'
        f'jetstream {{ store_dir: "{folder / "jetstream"}", sync_interval: always }}\n{keys.server_config()}'
    )
    return Process("nats", [binary, "-c", str(config)], folder)


def postgres_binaries() -> Path:
    """Return the folder with PostgreSQL's server programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        raise StartFailed("PostgreSQL is missing: apt-get install postgresql")
    return Path(on_path).parent


@dataclass
class Database:
    """A PostgreSQL server and what a client needs to reach it."""

    process: Process
    port: int
    owner_password: str
    service_password: str


def create_database(folder: Path, port: int) -> Database:
    """Make a database cluster in `folder`, owned by the role that migrates."""
    data, socket_folder = folder / "postgres", folder / "postgres-socket"
    owner_password, service_password = secrets.token_urlsafe(16), secrets.token_urlsafe(16)
    password_file = folder / "owner-password"
    password_file.write_text(owner_password)
    for path in (data, socket_folder):
        path.mkdir(mode=0o700)
    prefix = _as_unprivileged(data, socket_folder, password_file)
    binaries = postgres_binaries()
    subprocess.run(
        [
            *prefix, str(binaries / "initdb"), "--pgdata", str(data), "--username", installation.DATABASE_OWNER,
            "--pwfile", str(password_file), "--auth", "scram-sha-256", "--encoding", "UTF8", "--no-locale",
            "--no-instructions",
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    single_user = [*prefix, str(binaries / "postgres"), "--single", "-D", str(data), "postgres"]
    subprocess.run(single_user, input=f"CREATE DATABASE {installation.DATABASE};".encode(), check=True, capture_output=True)
    command = [
        *prefix, str(binaries / "postgres"), "-D", str(data), "-p", str(port), "-k", str(socket_folder),
        "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=100",
    ]  # fmt: skip
    return Database(Process("postgres", command, folder), port, owner_password, service_password)


def _as_unprivileged(*owned: Path) -> list[str]:
    """PostgreSQL refuses to run as root: hand the folders to its own user and return the prefix that becomes it."""
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam("postgres")
    for path in owned:
        os.chown(path, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--pdeathsig", "KILL", "--"]


async def start_postgres(database: Database) -> None:
    """Start (again) and wait until connections are accepted."""
    await database.process.start()

    async def ready() -> bool:
        return await tcp_open(database.port) and bool(re.search(r"ready to accept connections", database.process.tail(5)))

    await database.process.until(ready)
