"""The engine and the programs that every command works with, found or made."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster import binaries, engine, host
from cluster.console import ClusterError, Console, output, succeeds
from cluster.settings import Settings

ENGINE_PACKAGES = ("docker.io", "iptables", "iproute2")
# Small, and present wherever public images are.
PROBE_IMAGE = "busybox:1"
PROBE_SECONDS = 60.0
PROGRAMS = ("docker", "kind", "kubectl", "helm")


@dataclass(frozen=True)
class Toolbox:
    """Where the programs are (links in one folder), whether images come from public registries, and the environment."""

    folder: Path
    public: bool
    environ: Mapping[str, str]

    def program(self, name: str) -> Path:
        """Path of docker, kind, kubectl or helm."""
        return self.folder / name


def prepare(console: Console, settings: Settings) -> Toolbox:
    """Find or make everything: a client, a running engine, kind, kubectl and helm."""
    settings.state.mkdir(parents=True, exist_ok=True)
    client = engine.find_client(settings.environ)
    if client is None:
        console.say("no docker client that can build with BuildKit is on the PATH")
        host.ensure_packages(console, settings, ENGINE_PACKAGES)
        client = engine.find_client({**settings.environ, "PATH": "/usr/bin"})
        if client is None:
            raise ClusterError("Debian's docker client cannot build with BuildKit; install the docker buildx plugin")
    environ = _environ(settings)
    if not engine.is_running(client, environ):
        if shutil.which("dockerd") is None or shutil.which("iptables") is None:
            host.ensure_packages(console, settings, ENGINE_PACKAGES)
        engine.start(console, settings, client)
    public = _decide_source(console, settings, client, environ)
    found = {"docker": client, **_programs(console, settings, public)}
    for name, path in found.items():
        _link(settings.state / "bin" / name, path)
    return Toolbox(folder=settings.state / "bin", public=public, environ=environ)


def existing(settings: Settings) -> Toolbox | None:
    """The toolbox that an earlier `prepare` left, if its engine still runs."""
    folder = settings.state / "bin"
    source = settings.state / "source"
    environ = _environ(settings)
    if not source.exists() or not all((folder / name).exists() for name in PROGRAMS):
        return None
    if not engine.is_running(folder / "docker", environ):
        return None
    return Toolbox(folder=folder, public=source.read_text() == "public", environ=environ)


def _environ(settings: Settings) -> dict[str, str]:
    path = f"{settings.state / 'bin'}{os.pathsep}{settings.environ.get('PATH', os.defpath)}"
    return {**settings.environ, "PATH": path, "DOCKER_BUILDKIT": "1", "KIND_EXPERIMENTAL_PROVIDER": "docker"}


def _decide_source(console: Console, settings: Settings, client: Path, environ: Mapping[str, str]) -> bool:
    """Whether public images are used. The answer holds while a cluster is there, so that it has one kind of images."""
    kept = settings.state / "source"
    in_use = output([client, "ps", "-aq", "--filter", "label=io.x-k8s.kind.cluster"], environ=environ).strip()
    if in_use and kept.exists():
        if settings.source not in ("auto", kept.read_text()):
            raise ClusterError(f"the cluster that is up has {kept.read_text()} images; run `down` first, to change that")
        return kept.read_text() == "public"
    if settings.source == "auto":
        console.say(f"trying to pull {PROBE_IMAGE}, to see whether public images can be had")
        public = succeeds([client, "pull", "--quiet", PROBE_IMAGE], environ=environ, seconds=PROBE_SECONDS)
        console.say("public images are used" if public else "no: images are built here, from package registries")
    else:
        public = settings.source == "public"
    kept.write_text("public" if public else "built")
    return public


def _programs(console: Console, settings: Settings, public: bool) -> dict[str, Path]:
    names = PROGRAMS[1:]
    if not public:
        folder = binaries.node_binaries(console, settings)
        return {name: folder / name for name in names}
    found = {name: Path(path) for name in names if (path := shutil.which(name, path=settings.environ.get("PATH")))}
    if "kind" not in found:
        found["kind"] = binaries.client_binaries(console, settings) / "kind"
    if len(found) < len(names):
        console.say(f"not on the PATH, so built here: {', '.join(name for name in names if name not in found)}")
        folder = binaries.node_binaries(console, settings)
        found = {**{name: folder / name for name in names}, **found}
    return found


def _link(link: Path, target: Path) -> None:
    """Make or replace a link in one step. A target that is the link itself is left alone."""
    if link.is_symlink() and target.absolute() == link:
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    fresh = link.with_name(f".{link.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.rename(link)
