"""The Docker engine: the one that runs, or one of our own, started and stopped without a trace."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from cluster import firewall, host
from cluster.console import ClusterError, Console, output, succeeds
from cluster.settings import Settings

# Layers of old builds are kept up to this size.
DAEMON = {"builder": {"gc": {"enabled": True, "defaultKeepStorage": "4GB"}}}
START_SECONDS = 60.0
STOP_SECONDS = 30.0
# An OCI runtime: runc, asked for no capability that this machine's bounding set lacks. `--privileged` asks for all of
# them, and runc refuses the absent one.
CAPPED_RUNTIME = """#!/bin/sh
want= file=
for word; do
  case "$want" in bundle) file=$word/config.json ;; process) file=$word ;; esac
  want=
  case "$word" in
    --bundle|-b) want=bundle ;; --bundle=*) file=${word#*=}/config.json ;;
    --process|-p) want=process ;; --process=*) file=${word#*=} ;;
  esac
done
[ -f "$file" ] && sed -i -e 's/"CAP_SYS_RESOURCE",//g' -e 's/,"CAP_SYS_RESOURCE"//g' "$file"
exec @RUNC@ "$@"
"""


def has_buildkit(version: str, has_buildx: bool) -> bool:
    """Whether a docker client can build with BuildKit: by its own code (before 23) or by the buildx plugin."""
    found = re.match(r"Docker version (\d+)\.", version)
    return has_buildx or (found is not None and int(found.group(1)) < 23)


def find_client(environ: Mapping[str, str]) -> Path | None:
    """The first docker client on the PATH that builds with BuildKit, or None."""
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        client = Path(folder) / "docker"
        if client.is_file() and os.access(client, os.X_OK):
            version = output([client, "--version"])
            if has_buildkit(version, succeeds([client, "buildx", "version"])):
                return client
    return None


def is_running(client: Path, environ: Mapping[str, str]) -> bool:
    """Whether a Docker engine answers this client."""
    return succeeds([client, "version", "--format", "{{.Server.Version}}"], environ=environ, seconds=20)


def start(console: Console, settings: Settings, client: Path) -> None:
    """Start a Docker engine of our own, with its data in the cache folder.

    Raises ClusterError with the end of its log when it does not answer within 60 s.
    """
    dockerd, runc = shutil.which("dockerd"), shutil.which("runc")
    if os.geteuid() != 0:
        raise ClusterError("no Docker engine runs and we are not root; start Docker, or run this command as root")
    if not dockerd or not runc:
        raise ClusterError("dockerd or runc is missing; run: apt-get install docker.io")
    settings.state.mkdir(parents=True, exist_ok=True)
    firewall.remember(settings.state / "firewall.json")
    (settings.state / "daemon.json").write_text(json.dumps(DAEMON))
    command = [dockerd, "--config-file", str(settings.state / "daemon.json")]
    command += ["--data-root", str(settings.cache / "docker"), "--pidfile", str(_pid_file(settings))]
    if not host.has_capability(host.CAP_SYS_RESOURCE, Path("/proc/self/status").read_text()):
        runtime = settings.state / "runc-capped"
        runtime.write_text(CAPPED_RUNTIME.replace("@RUNC@", runc))
        runtime.chmod(0o755)
        command += ["--add-runtime", f"capped={runtime}", "--default-runtime", "capped"]
    log = settings.state / "dockerd.log"
    console.say(f"starting a Docker engine (log: {log})")
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True
        )
    deadline = time.monotonic() + START_SECONDS
    while not is_running(client, settings.environ):
        if process.poll() is not None or time.monotonic() > deadline:
            tail = log.read_text(errors="replace").splitlines()[-15:]
            stop(console, settings)
            raise ClusterError("the Docker engine did not start:\n" + "\n".join(tail))
        time.sleep(0.2)


def our_pid(settings: Settings) -> int | None:
    """Process id of the engine that we started, or None when it does not run."""
    try:
        pid = int(_pid_file(settings).read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return pid if str(_pid_file(settings)).encode() in command else None


def stop(console: Console, settings: Settings) -> None:
    """Stop the engine that we started, and remove its bridges, mounts and firewall rules. One of others is left."""
    pid = our_pid(settings)
    if pid is not None:
        console.say("stopping the Docker engine that was started here")
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while our_pid(settings) is not None:
            if time.monotonic() > deadline:
                raise ClusterError(f"the Docker engine (process {pid}) does not stop; see {settings.state}/dockerd.log")
            time.sleep(0.1)
    if (settings.state / "firewall.json").exists():
        firewall.restore(settings.state / "firewall.json")
        if Path("/sys/class/net/docker0").exists():
            succeeds(["ip", "link", "delete", "docker0"])
        _unmount(settings)
    _pid_file(settings).unlink(missing_ok=True)


def _pid_file(settings: Settings) -> Path:
    return settings.state / "dockerd.pid"


def _unmount(settings: Settings) -> None:
    """Unmount what a killed engine left below its data folder and its network namespaces."""
    left = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    data = str(settings.cache / "docker")
    ours = [place for place in left if place == data or place.startswith((f"{data}/", "/run/docker/netns/"))]
    for place in reversed(ours):
        succeeds(["umount", place])
