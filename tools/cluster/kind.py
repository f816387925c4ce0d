"""The kind cluster itself: its configuration and its life."""

from __future__ import annotations

import json
import shutil
import textwrap
from pathlib import Path

from cluster.console import Console, output, run_logged, succeeds
from cluster.settings import Settings
from cluster.toolbox import Toolbox

# Process limits are per pod, and nothing else holds a fork bomb of one pod away from the others.
POD_PROCESSES = 512
READY_SECONDS = 180
MADE = "made"
PATCHES = "/kind/patches"
# Requests are weights too: the API server and etcd must not starve behind the pods that they serve.
CONTROL_PLANE_CPU = {"etcd": 50, "kube-apiserver": 100, "kube-controller-manager": 20, "kube-scheduler": 20}
# One control plane has nobody to elect a leader against, and one that renews its lease late on a busy machine restarts.
WITHOUT_ELECTION = {
    "kubeadm.k8s.io/v1beta3": 'extraArgs: {leader-elect: "false"}',
    "kubeadm.k8s.io/v1beta4": 'extraArgs: [{name: leader-elect, value: "false"}]',
}
WITHOUT_SYSTEMD = """[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
"""
SYSTEM = (("kube-system", "deployment/coredns"), ("local-path-storage", "deployment/local-path-provisioner"))


def write_patches(folder: Path) -> None:
    """kubeadm's patches: the control plane asks for less, where it would take a third of a two-core machine."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, millicores in CONTROL_PLANE_CPU.items():
        container = f"{{name: {part}, resources: {{requests: {{cpu: {millicores}m}}}}}}"
        (folder / f"{part}+strategic.yaml").write_text(f"spec: {{containers: [{container}]}}\n")


def cluster_config(workers: int, patches_folder: Path, *, old_cgroups: bool) -> str:
    """kind's configuration: one control plane, `workers` more nodes, bounded processes a pod.

    `patches_folder` on this machine is what `write_patches` filled.
    `old_cgroups` says that this machine has cgroup v1. The kubelet refuses it unless told; and with systemd as the
    driver, runc freezes each new container to set its device rules, which fails when many pods start at once.
    """
    kubelet = f"kind: KubeletConfiguration\npodPidsLimit: {POD_PROCESSES}\n"
    runtime = ""
    if old_cgroups:
        kubelet += "failCgroupV1: false\ncgroupDriver: cgroupfs\n"
        runtime = f"containerdConfigPatches:\n- |\n{textwrap.indent(WITHOUT_SYSTEMD, '  ')}"
    mount = f"  extraMounts: [{{hostPath: {json.dumps(str(patches_folder))}, containerPath: {PATCHES}, readOnly: true}}]\n"
    nodes = f"- role: control-plane\n{mount}" + "- role: worker\n" * workers
    patches = [kubelet, f"kind: InitConfiguration\npatches: {{directory: {PATCHES}}}\n"]
    for version, arguments in WITHOUT_ELECTION.items():
        parts = f"controllerManager: {{{arguments}}}\nscheduler: {{{arguments}}}\n"
        patches.append(f"kind: ClusterConfiguration\napiVersion: {version}\n{parts}")
    kubeadm = "".join(f"- |\n{textwrap.indent(patch, '  ')}" for patch in patches)
    head = "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\n"
    return f"{head}nodes:\n{nodes}kubeadmConfigPatches:\n{kubeadm}{runtime}"


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
    return succeeds(_kubectl(tools, settings, name, "get", "--raw", "/readyz"), environ=tools.environ, seconds=30)


def _kubectl(tools: Toolbox, settings: Settings, name: str, *words: str) -> list[str]:
    return [str(tools.program("kubectl")), "--kubeconfig", str(settings.kubeconfig(name)), *words]


def create(console: Console, settings: Settings, tools: Toolbox, name: str, workers: int, image: str | None) -> None:
    """Create cluster `name` and wait until pods, names and volumes work in it."""
    folder = settings.kubeconfig(name).parent
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "kind.yaml"
    write_patches(folder / "patches")
    old = not Path("/sys/fs/cgroup/cgroup.controllers").exists()
    config.write_text(cluster_config(workers, folder / "patches", old_cgroups=old))
    command = [*_kind(tools), "create", "cluster", "--name", name, "--config", str(config)]
    command += ["--kubeconfig", str(settings.kubeconfig(name)), "--wait", f"{READY_SECONDS}s"]
    if image:
        command += ["--image", image]
    count = f"{workers + 1} node{'s' if workers else ''}"
    log = folder / "create.log"
    try:
        run_logged(console, f"creating cluster {name} with {count} (about 35 s)", command, log, environ=tools.environ)
        wait_ready(console, settings, tools, name)
    except KeyboardInterrupt:
        delete(console, settings, tools, name)
        raise
    mark_made(settings, name)


def mark_made(settings: Settings, name: str) -> None:
    """Note that the cluster works, so that `up` never deletes it."""
    (settings.kubeconfig(name).parent / MADE).touch()


def was_made(settings: Settings, name: str) -> bool:
    """Whether `create` of this cluster came to its end. One that was interrupted holds nothing worth keeping."""
    return (settings.kubeconfig(name).parent / MADE).exists()


def start_nodes(settings: Settings, tools: Toolbox, name: str) -> None:
    """Start a cluster's stopped nodes, and write its kubeconfig again where it is gone."""
    settings.kubeconfig(name).parent.mkdir(parents=True, exist_ok=True)
    for node in nodes(tools, name):
        succeeds([tools.program("docker"), "start", node], environ=tools.environ)
    if not settings.kubeconfig(name).exists():
        export = ["export", "kubeconfig", "--name", name, "--kubeconfig", str(settings.kubeconfig(name))]
        succeeds([*_kind(tools), *export], environ=tools.environ)


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
