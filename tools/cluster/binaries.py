"""Programs built from the Go module proxy: the node's, and kind, kubectl and helm for this machine."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from cluster import host
from cluster.cache import artefact, content_key
from cluster.console import Console, output, run_logged
from cluster.settings import GO_TOOLS, HERE, KIND, KUBERNETES, RUNC, Settings

PACKAGES = ("gcc", "libc6-dev", "libseccomp-dev", "pkg-config")
SOURCES = ("go.mod", "go.sum", "main.go", "pause.c")
KIND_MODULE = "sigs.k8s.io/kind"


def node_binaries(console: Console, settings: Settings) -> Path:
    """A folder with `node` (every part of Kubernetes as one program), kind, kubectl, helm and the container runtime."""

    def make(folder: Path) -> None:
        host.ensure_packages(console, settings, PACKAGES)
        _build_node(console, settings, folder)
        _install(console, settings, folder, f"{KIND_MODULE}@{KIND}", cgo=False)
        for package, version in GO_TOOLS.items():
            _install(console, settings, folder, f"{package}@{version}", cgo=False)
        _install(console, settings, folder, f"github.com/opencontainers/runc@{RUNC}", cgo=True, tags="seccomp")
        pause = [_compiler(), "-Os", "-static", "-o", str(folder / "pause"), str(HERE / "node/pause.c")]
        output(pause)

    key = content_key([*((HERE / "node" / name).read_bytes() for name in SOURCES), KIND, KUBERNETES, RUNC, str(GO_TOOLS)])
    return artefact(settings.cache, "binaries", key, make)


def client_binaries(console: Console, settings: Settings) -> Path:
    """A folder with kind alone, for a machine that can pull the public node image."""
    key = content_key([KIND])
    return artefact(
        settings.cache,
        "kind",
        key,
        lambda folder: _install(console, settings, folder, f"{KIND_MODULE}@{KIND}", cgo=False),
    )


def kind_sources() -> Path:
    """Folder of kind's own source in Go's module cache, fetched when it is not there."""
    found = output([host.need_go(), "mod", "download", "-json", f"{KIND_MODULE}@{KIND}"], cwd=Path("/"), seconds=300)
    return Path(json.loads(found)["Dir"])


def _build_node(console: Console, settings: Settings, folder: Path) -> None:
    source = folder / "source"
    source.mkdir()
    for name in SOURCES[:3]:
        shutil.copy(HERE / "node" / name, source / name)
    stamps = [
        f"-X {place}.gitVersion={KUBERNETES}" for place in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    ]
    flags = " ".join(["-s -w", *stamps])
    command = [host.need_go(), "build", "-trimpath", "-ldflags", flags, "-o", str(folder / "node"), "."]
    environ = {**settings.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod -buildvcs=false"}
    what = "building Kubernetes, containerd, CoreDNS and kube-router (about 9 min the first time, on two cores)"
    run_logged(console, what, command, settings.state / "go.log", environ=environ, cwd=source)
    shutil.rmtree(source)
    for name in ("kubectl", "helm", "kubeadm"):
        (folder / name).symlink_to("node")


def _install(console: Console, settings: Settings, folder: Path, package: str, *, cgo: bool, tags: str = "") -> None:
    command = [host.need_go(), "install", "-trimpath", "-ldflags", "-s -w", "-tags", tags, package]
    environ = {**settings.environ, "GOBIN": str(folder), "CGO_ENABLED": "1" if cgo else "0", "GOFLAGS": "-buildvcs=false"}
    run_logged(console, f"building {package}", command, settings.state / "go.log", environ=environ, cwd=Path("/"))


def _compiler() -> str:
    return shutil.which("gcc") or "cc"
