"""The kind cluster itself: its configuration and its life."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

from cluster.console import Console, output, run_logged, succeeds
from cluster.settings import Settings
from cluster.toolbox import Toolbox

# Process limits are per pod, and nothing else holds a fork bomb of one pod away from the others.
POD_PROCESSES = 512
READY_SECONDS = 180
SYSTEM = (("kube-system", "deployment/coredns"), ("local-path-storage", "deployment/local-path-provisioner"))


def cluster_config(workers: int, *, old_cgroups: bool) -> str:
    """kind's configuration: one control plane, `workers` more nodes, bounded processes a pod.

    `old_cgroups` says that this machine has cgroup v1, which the public image's kubelet refuses unless told.
    """
    kubelet = [f"kind: KubeletConfiguration\npodPidsLimit: {POD_PROCESSES}\n"]
    if old_cgroups:
        kubelet.append("failCgroupV1: false\n")
    nodes = "- role: control-plane\n" + "- role: worker\n" * workers
    patch = textwrap.indent("".join(kubelet), "  ")
    return f"kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n{nodes}kubeadmConfigPatches:\n- |\n{patch}"


def clusters(tools: Toolbox) -> list[str]:
    """Names of the kind clusters in the engine."""
    return output([*_kind(tools), "get", "clusters"], environ=tools.environ).split()


def nodes(tools: Toolbox, name: str) -> list[str]:
    """Container names of a cluster's nodes."""
    return output([*_kind(tools), "get", "nodes", "--name", name], environ=tools.environ).split()


def _kind(tools: Toolbox) -> list[str]:
    return [str(tools.program("kind"))]


def kubectl(tools: Toolbox, settings: Settings, name: str, *words: str, seconds: float = 60.0) -> str:
    """Output of one kubectl call against cluster `name`."""
    return output(_kubectl(tools, settings, name, *words), environ=tools.environ, seconds=seconds)


def answers(tools: Toolbox, settings: Settings, name: str) -> bool:
    """Whether the cluster's API server says that it is ready."""
    return succeeds(_kubectl(tools, settings, name, "get", "--raw", "/readyz"), environ=tools.environ, seconds=10)


def _kubectl(tools: Toolbox, settings: Settings, name: str, *words: str) -> list[str]:
    return [str(tools.program("kubectl")), "--kubeconfig", str(settings.kubeconfig(name)), *words]


def create(console: Console, settings: Settings, tools: Toolbox, name: str, workers: int, image: str | None) -> None:
    """Create cluster `name` and wait until pods, names and volumes work in it."""
    folder = settings.kubeconfig(name).parent
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "kind.yaml"
    old = not Path("/sys/fs/cgroup/cgroup.controllers").exists()
    config.write_text(cluster_config(workers, old_cgroups=old))
    command = [*_kind(tools), "create", "cluster", "--name", name, "--config", str(config)]
    command += ["--kubeconfig", str(settings.kubeconfig(name)), "--wait", f"{READY_SECONDS}s"]
    if image:
        command += ["--image", image]
    count = f"{workers + 1} node{'s' if workers else ''}"
    log = folder / "create.log"
    run_logged(console, f"creating cluster {name} with {count} (about 35 s)", command, log, environ=tools.environ)
    wait_ready(console, settings, tools, name)


def wait_ready(console: Console, settings: Settings, tools: Toolbox, name: str) -> None:
    """Wait for every node, for DNS and for the volume provisioner."""
    console.say("waiting for nodes, DNS and volumes")
    conditions = [["--for=condition=Ready", "nodes", "--all"], ["--for=create", "serviceaccount/default"]]
    conditions += [["-n", namespace, "--for=condition=Available", thing] for namespace, thing in SYSTEM]
    for condition in conditions:
        words = ["wait", f"--timeout={READY_SECONDS}s", *condition]
        kubectl(tools, settings, name, *words, seconds=READY_SECONDS + 10)


def delete(console: Console, settings: Settings, tools: Toolbox, name: str) -> None:
    """Delete cluster `name` and its kubeconfig; harmless when there is none."""
    folder = settings.kubeconfig(name).parent
    folder.mkdir(parents=True, exist_ok=True)
    command = [*_kind(tools), "delete", "cluster", "--name", name, "--kubeconfig", str(settings.kubeconfig(name))]
    run_logged(console, f"deleting cluster {name}", command, folder / "delete.log", environ=tools.environ)
    shutil.rmtree(folder, ignore_errors=True)
