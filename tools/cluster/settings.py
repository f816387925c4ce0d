"""Where the tool keeps things, and the versions of everything it builds."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Source = Literal["auto", "public", "built"]

REPOSITORY = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent

KUBERNETES = "v1.37.2"
KIND = "v0.33.0"
DEBIAN = "bookworm"
# Built with `go install`; node/go.mod holds the rest. containerd 2.4 needs cri-api 0.37, hence Kubernetes 1.37.
GO_TOOLS = {
    "sigs.k8s.io/cri-tools/cmd/crictl": "v1.37.0",
    "github.com/rancher/local-path-provisioner": "v0.0.30",
    "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2": "v2.4.2",
}
RUNC = "v1.5.3"
LOCAL_PATH_IMAGE = f"localhost/local-path-provisioner:{GO_TOOLS['github.com/rancher/local-path-provisioner']}"
ROUTER_IMAGE = "localhost/kube-router:v2.1.0"
BUSYBOX_IMAGE = "localhost/busybox:1"

ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True)
class Settings:
    """What the environment says about one run.

    `source` decides between public images and images built here; `auto` looks for itself.
    """

    cache: Path
    source: Source
    environ: Mapping[str, str]

    @property
    def state(self) -> Path:
        """Folder for what is running now: pid file, firewall snapshot, kubeconfigs."""
        return self.cache / "state"

    @property
    def architecture(self) -> str:
        """Go's name of this machine's processor."""
        return ARCHITECTURES.get(platform.machine(), platform.machine())

    def kubeconfig(self, name: str) -> Path:
        """Path of the kubeconfig of cluster `name`."""
        return self.state / name / "kubeconfig"


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Settings from environment variables.

    Raises ValueError naming the variable when one holds a value that is not understood.
    """
    base = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".cache")
    cache = Path(environ.get("HERMES_CLUSTER_CACHE") or Path(base) / "hermes-cluster")
    if not cache.is_absolute():
        raise ValueError(f"HERMES_CLUSTER_CACHE={cache} is relative; give an absolute path")
    source = environ.get("HERMES_CLUSTER_SOURCE", "auto")
    if source not in ("auto", "public", "built"):
        raise ValueError(f"HERMES_CLUSTER_SOURCE={source} is unknown; use auto, public or built")
    return Settings(cache=cache, source=source, environ=environ)  # type: ignore[arg-type]
