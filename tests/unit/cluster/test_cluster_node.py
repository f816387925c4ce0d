"""The node image holds what kubeadm and kind expect; the cluster's configuration says what we promise."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
import yaml

from cluster.archive import Image, Layer, layer_bytes, write_images
from cluster.console import ClusterError, Console, run_logged
from cluster.kind import CONTROL_PLANE_CPU, cluster_config, write_patches
from cluster.node_image import image_plan, pause_image, storage_manifest
from cluster.settings import BUSYBOX_IMAGE, LOCAL_PATH_IMAGE

LISTED = [
    f"some.where/{name}"
    for name in (
        "kube-apiserver:v1",
        "kube-controller-manager:v1",
        "kube-scheduler:v1",
        "kube-proxy:v1",
        "coredns/coredns:v1.14",
        "pause:3.10.2",
        "etcd:3.7.0-0",
    )
]
STORAGE = """package nodeimage
const storageProvisionerImage = "x"
const defaultStorageManifest = `
kind: Deployment
image: ` + storageProvisionerImage + `
helper: ` + storageHelperImage + `
`
"""


def test_every_image_that_kubeadm_lists_is_made(tmp_path: Path) -> None:
    layers, images = image_plan(LISTED, "some.where/pause:3.10", tmp_path, tmp_path / "net.tar")
    made = {name for image in images for name in image.names}
    assert {*LISTED, "some.where/pause:3.10"} <= made
    assert {layer for image in images for layer in image.layers} <= set(layers)


def test_an_image_nobody_makes_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="new-part"):
        image_plan([*LISTED, "some.where/new-part:v1"], "some.where/pause:3.10", tmp_path, tmp_path / "net.tar")


def test_the_storage_manifest_is_cut_out_whole_with_our_images() -> None:
    assert storage_manifest(STORAGE) == f"kind: Deployment\nimage: {LOCAL_PATH_IMAGE}\nhelper: {BUSYBOX_IMAGE}\n"
    with pytest.raises(ClusterError, match="defaultStorageManifest"):
        storage_manifest("package nodeimage")


@pytest.mark.parametrize("line", ['  sandbox_image = "some.where/pause:3.10"', "    sandbox = 'some.where/pause:3.10'"])
def test_the_pause_image_is_the_one_containerd_names(line: str) -> None:
    assert pause_image(f"version = 2\n{line}\n") == "some.where/pause:3.10"
    with pytest.raises(ClusterError, match="pause"):
        pause_image("version = 3\n")


def test_an_archive_is_consistent_and_its_layers_reproducible(tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(b"binary")
    layers = {"one": Layer(files={"usr/bin/program": tmp_path / "program"}, links={"bin/sh": "/usr/bin/program"})}
    images = [Image(names=["localhost/a:1"], layers=["one"], entrypoint=["/usr/bin/program"])]
    write_images(tmp_path / "out.tar", layers, images, "arm64")
    with tarfile.open(tmp_path / "out.tar") as tar:
        manifest = json.load(tar.extractfile("manifest.json"))[0]  # type: ignore[arg-type]
        config = json.load(tar.extractfile(manifest["Config"]))  # type: ignore[arg-type]
        raw = gzip.decompress(tar.extractfile(manifest["Layers"][0]).read())  # type: ignore[union-attr]
    assert config["architecture"] == "arm64"
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(raw).hexdigest()]
    assert raw == layer_bytes(layers["one"])
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        assert tar.getmember("usr/bin/program").mode == 0o755
        assert tar.getmember("bin/sh").linkname == "/usr/bin/program"


@pytest.mark.parametrize("old", [True, False])
def test_the_configuration_bounds_processes_and_fits_the_machine(old: bool, tmp_path: Path) -> None:
    config = yaml.safe_load(cluster_config(2, tmp_path, old_cgroups=old))
    kubelet = yaml.safe_load(config["kubeadmConfigPatches"][0])
    assert [node["role"] for node in config["nodes"]] == ["control-plane", "worker", "worker"]
    assert kubelet["podPidsLimit"] == 512
    write_patches(tmp_path)
    mount = config["nodes"][0]["extraMounts"][0]
    assert mount["containerPath"] == yaml.safe_load(config["kubeadmConfigPatches"][1])["patches"]["directory"]
    for patch in Path(mount["hostPath"]).iterdir():
        part = yaml.safe_load(patch.read_text())["spec"]["containers"][0]
        assert patch.name.startswith(part["name"])
        assert part["resources"]["requests"] == {"cpu": f"{CONTROL_PLANE_CPU[part['name']]}m"}
    for patch in map(yaml.safe_load, config["kubeadmConfigPatches"][2:]):
        assert "leader-elect" in str(patch["controllerManager"]), patch["apiVersion"]
    assert ("cgroupDriver" in kubelet) is ("containerdConfigPatches" in config) is old


def test_a_failing_command_shows_the_end_of_its_log(tmp_path: Path) -> None:
    out = io.StringIO()
    with pytest.raises(ClusterError, match="the disk is full"):
        run_logged(Console(out), "building", ["sh", "-c", "echo the disk is full >&2; exit 3"], tmp_path / "build.log")
    assert "building" in out.getvalue()
