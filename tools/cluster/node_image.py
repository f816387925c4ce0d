"""The kind node image, built from Debian packages and the Go module proxy where the public one cannot be pulled."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster import binaries, host
from cluster.archive import Image, Layer, write_images
from cluster.cache import artefact, content_key
from cluster.console import ClusterError, Console, output, run_logged, succeeds
from cluster.settings import (
    BUSYBOX_IMAGE,
    DEBIAN,
    GO_TOOLS,
    HERE,
    KUBERNETES,
    LOCAL_PATH_IMAGE,
    ROUTER_IMAGE,
    RUNC,
    Settings,
)

NODE_PACKAGES = (
    "systemd,conntrack,iptables,nftables,ipset,iproute2,ethtool,util-linux,mount,kmod,libseccomp2,e2fsprogs,bash,"
    "ca-certificates,curl,jq,procps,hostname,busybox,containernetworking-plugins"
)
BUSYBOX_COMMANDS = "sh rm mkdir wget nslookup httpd sleep nc cat mv ping"
CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
IN_LAYER = (*CONTROL_PLANE, "kube-proxy", "kube-router", "coredns", "kubectl")
# The options for fetching may name a proxy; they must not stay in an image.
FORGET_SETTINGS = "--customize-hook=rm -f $1/etc/apt/apt.conf.d/99mmdebstrap"
SLIM = tuple(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale", "info"))


def image_plan(
    names: Sequence[str], pause: str, programs: Path, network_layer: Path
) -> tuple[dict[str, Layer], list[Image]]:
    """Layers and images that a node needs.

    `names` is what `kubeadm config images list` prints, `pause` the image that containerd's configuration names.
    Raises ClusterError when kubeadm names an image that we do not make.
    """
    by_part = {name.rpartition("/")[2].partition(":")[0]: name for name in names}
    unknown = set(by_part) - {*CONTROL_PLANE, "kube-proxy", "coredns", "pause"}
    if unknown:
        raise ClusterError(f"kubeadm {KUBERNETES} needs images that are not made here: {', '.join(sorted(unknown))}")
    here = "usr/local/bin"
    layers = {
        "tmp": Layer(files={"tmp/.keep": Path(os.devnull)}),
        "pause": Layer(files={"pause": programs / "pause"}),
        "net": Layer(tar=network_layer),
        "node": Layer(files={f"{here}/node": programs / "node"}, links={f"{here}/{name}": "node" for name in IN_LAYER}),
        "busybox": Layer(links={f"bin/{name}": "/usr/bin/busybox" for name in BUSYBOX_COMMANDS.split()}),
        "local-path": Layer(files={f"{here}/local-path-provisioner": programs / "local-path-provisioner"}),
    }
    images = [
        Image(names=sorted({by_part["pause"], pause}), layers=["pause"], entrypoint=["/pause"]),
        Image(names=[by_part[part] for part in CONTROL_PLANE], layers=["tmp", "node"]),
        Image(names=[by_part["coredns"]], layers=["tmp", "node"], entrypoint=[f"/{here}/coredns"]),
        Image(names=[by_part["kube-proxy"], ROUTER_IMAGE], layers=["tmp", "node", "net", "busybox"]),
        Image(names=[BUSYBOX_IMAGE], layers=["tmp", "net", "busybox"], command=["/bin/sh"]),
        Image(names=[LOCAL_PATH_IMAGE], layers=["tmp", "local-path"]),
    ]
    return layers, images


def storage_manifest(source: str) -> str:
    """The manifest of the default StorageClass, out of the text of kind's const_storage.go, with our images."""
    found = re.search(r"^const defaultStorageManifest = `\n(.*?)^`", source, re.DOTALL | re.MULTILINE)
    if not found:
        raise ClusterError("kind's source no longer holds defaultStorageManifest; node_image.py must follow it")
    text = found.group(1)
    for name, image in (("storageProvisionerImage", LOCAL_PATH_IMAGE), ("storageHelperImage", BUSYBOX_IMAGE)):
        text = text.replace(f"` + {name} + `", image)
    return text


def pause_image(configuration: str) -> str:
    """The image of the pause container in the text of containerd's config.toml."""
    found = re.search(r"sandbox(?:_image)? = ['\"](\S+/pause:[^'\"]+)['\"]", configuration)
    if not found:
        raise ClusterError("kind's containerd configuration no longer names a pause image; node_image.py must follow it")
    return found.group(1)


def ensure_node_image(console: Console, settings: Settings, client: Path, environ: Mapping[str, str]) -> str:
    """Tag of the node image in the running engine, built when it is not there."""
    sources = sorted(path for path in (HERE / "node").iterdir() if path.is_file())
    parts = [part for path in sources for part in (path.name, path.read_bytes())]
    key = content_key([*parts, NODE_PACKAGES, DEBIAN, BUSYBOX_COMMANDS, KUBERNETES, str(GO_TOOLS), RUNC])
    tag = f"localhost/hermes-node:{key}"
    if succeeds([client, "image", "inspect", tag], environ=environ):
        return tag
    programs = binaries.node_binaries(console, settings)
    root = _debian_root(console, settings)
    context = settings.cache / ".partial-node-image"
    shutil.rmtree(context, ignore_errors=True)
    try:
        console.say("archiving the container images of the node (about 15 s)")
        _fill_context(context, settings, programs, root)
        build = [str(client), "build", "--tag", tag, "--file", str(HERE / "node/Dockerfile"), str(context)]
        log = settings.state / "docker-build.log"
        run_logged(console, f"building the node image {tag} (about 30 s)", build, log, environ=environ)
    finally:
        shutil.rmtree(context, ignore_errors=True)
    forget_older(client, environ, tag)
    return tag


def forget_older(client: Path, environ: Mapping[str, str], tag: str) -> None:
    """Remove images of the same repository with other tags, except where a container uses them."""
    repository = tag.rpartition(":")[0]
    listed = output([client, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", repository], environ=environ)
    for other in listed.split():
        if other != tag:
            succeeds([client, "image", "rm", other], environ=environ)


def _debian_root(console: Console, settings: Settings) -> Path:
    def make(folder: Path) -> None:
        host.ensure_packages(console, settings, ("mmdebstrap", "debian-archive-keyring"))
        hook = HERE / "node/netlayer.sh"
        command = ["mmdebstrap", "--variant=minbase", f"--include={NODE_PACKAGES}", *SLIM, *host.apt_options()]
        command += [f"--customize-hook={hook}", FORGET_SETTINGS, "--customize-hook=rm -f $1/etc/apt/sources.list"]
        environ = {**settings.environ, "NETLAYER": str(folder / "netlayer.tar")}
        command += [DEBIAN, str(folder / "rootfs.tar")]
        log = settings.state / "mmdebstrap.log"
        run_logged(console, "making the node's Debian root (about 40 s)", command, log, environ=environ)

    key = content_key([NODE_PACKAGES, DEBIAN, (HERE / "node/netlayer.sh").read_bytes(), str(SLIM)])
    return artefact(settings.cache, "node-root", key, make)


def _fill_context(context: Path, settings: Settings, programs: Path, root: Path) -> None:
    kind = binaries.kind_sources()
    for name in ("bin/usr/local/bin", "bin/usr/local/sbin", "bin/kind/manifests"):
        (context / name).mkdir(parents=True)
    os.link(root / "rootfs.tar", context / "rootfs.tar")
    skipped = shutil.ignore_patterns("LICENSES")
    shutil.copytree(kind / "images/base/files", context / "files", ignore=skipped, copy_function=shutil.copyfile)
    for path in (context / "files").rglob("*"):
        runs = path.is_dir() or path.parent.name == "bin" or path.name == "entrypoint"
        path.chmod(0o755 if runs else 0o644)
    for name in ("node", "crictl", "containerd-shim-runc-v2"):
        shutil.copy(programs / name, context / "bin/usr/local/bin")
    shutil.copy(programs / "runc", context / "bin/usr/local/sbin")
    manifests = context / "bin/kind/manifests"
    shutil.copy(HERE / "node/network.yaml", manifests / "default-cni.yaml")
    source = (kind / "pkg/build/nodeimage/const_storage.go").read_text()
    (manifests / "default-storage.yaml").write_text(storage_manifest(source))
    (context / "bin/kind/version").write_text(KUBERNETES)
    listed = output([programs / "kubeadm", "config", "images", "list", "--kubernetes-version", KUBERNETES]).split()
    pause = pause_image((context / "files/etc/containerd/config.toml").read_text())
    layers, images = image_plan(listed, pause, programs, root / "netlayer.tar")
    write_images(context / "images.tar", layers, images, settings.architecture)
