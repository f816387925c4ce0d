"""One `docker build`, with what a build needs of this machine given as secrets that never reach a layer."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cluster import context, host
from cluster.console import Console, run_logged
from cluster.settings import Settings
from cluster.toolbox import Toolbox

INPUTS_LABEL = "run.hermes.inputs"
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


@dataclass(frozen=True)
class Request:
    """What to build: a Dockerfile whose COPY lines are relative to `root`, and under which tag."""

    tag: str
    dockerfile: Path
    root: Path
    target: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    inputs: str = ""


def command_line(request: Request, docker: Path, folder: Path, secrets: Mapping[str, Path], proxies: list[str]) -> list[str]:
    """The docker command. Proxies are named without their value, which docker takes from the environment."""
    words = [str(docker), "build", "--network", "host", "--tag", request.tag, "--file", str(request.dockerfile)]
    if request.target:
        words += ["--target", request.target]
    if request.inputs:
        words += ["--label", f"{INPUTS_LABEL}={request.inputs}"]
    for name, value in request.arguments.items():
        words += ["--build-arg", f"{name}={value}"]
    for name in proxies:
        words += ["--build-arg", name]
    for name, path in secrets.items():
        words += ["--secret", f"id={name},src={path}"]
    return [*words, str(folder)]


def run(console: Console, settings: Settings, tools: Toolbox, request: Request) -> None:
    """Build one image. Raises ClusterError with the end of docker's output."""
    with tempfile.TemporaryDirectory(prefix="hermes-build-") as temporary:
        folder = Path(temporary) / "context"
        folder.mkdir()
        names = context.sources(request.dockerfile.read_text())
        context.stage(request.root, context.files(request.root, names), folder)
        secrets = _write_secrets(settings, Path(temporary))
        proxies = [name for name in PROXIES if settings.environ.get(name)]
        command = command_line(request, tools.program("docker"), folder, secrets, proxies)
        log = settings.state / "docker-build.log"
        run_logged(console, f"building {request.tag}", command, log, environ=tools.environ)


def _write_secrets(settings: Settings, folder: Path) -> dict[str, Path]:
    texts = {
        "pipconf": host.pip_settings(settings.environ, host.pip_files(settings.environ)),
        "aptconf": host.apt_settings(host.apt_dump()),
    }
    secrets: dict[str, Path] = {}
    for name, text in texts.items():
        path = folder / name
        path.touch(mode=0o600)
        path.write_text(text)
        secrets[name] = path
    bundle = host.certificate_bundle(settings.environ)
    if bundle:
        secrets["ca"] = bundle
    return secrets
