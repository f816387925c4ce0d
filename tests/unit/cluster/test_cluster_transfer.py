"""Loading an image sends the layers that a node lacks, and a complete description of the image."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from cluster.loading import missing_images
from cluster.transfer import chain_ids, snapshots, write_archive


def sha(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def docker_save(path: Path, images: dict[str, list[bytes]], *, packed: bool = False) -> None:
    """What `docker save` writes: shared layers are links to the first of them."""
    with tarfile.open(path, "w") as tar:
        manifest = []
        seen: dict[bytes, str] = {}
        for number, (name, layers) in enumerate(images.items()):
            config = json.dumps({"n": number, "rootfs": {"diff_ids": [sha(layer) for layer in layers]}}).encode()
            members = []
            for place, layer in enumerate(layers):
                entry = tarfile.TarInfo(f"i{number}-{place}/layer.tar")
                data = gzip.compress(layer) if packed else layer
                if layer in seen:
                    entry.type, entry.linkname = tarfile.SYMTYPE, f"../{seen[layer]}"
                    tar.addfile(entry)
                else:
                    seen[layer] = entry.name
                    entry.size = len(data)
                    tar.addfile(entry, io.BytesIO(data))
                members.append(entry.name)
            entry = tarfile.TarInfo(f"config{number}.json")
            entry.size = len(config)
            tar.addfile(entry, io.BytesIO(config))
            manifest.append({"Config": entry.name, "RepoTags": [name], "Layers": members})
        data = json.dumps(manifest).encode()
        entry = tarfile.TarInfo("manifest.json")
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))


def read(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar.getmembers()}  # type: ignore[union-attr]


BASE, LIBRARIES, CODE, OTHER = b"base" * 1000, b"libraries" * 1000, b"code" * 10, b"other" * 10


def test_layers_that_the_node_has_unpacked_are_left_out(tmp_path: Path) -> None:
    docker_save(tmp_path / "saved.tar", {"localhost/a:dev": [BASE, LIBRARIES, CODE]})
    present = set(chain_ids([sha(BASE), sha(LIBRARIES)]))
    write_archive(tmp_path / "saved.tar", tmp_path / "out.tar", present)
    blobs = read(tmp_path / "out.tar")
    assert blobs["blobs/" + sha(CODE).replace(":", "/")] == CODE
    assert not any(content in (BASE, LIBRARIES) for content in blobs.values())
    entry = json.loads(blobs["index.json"])["manifests"][0]
    assert entry["annotations"] == {"io.containerd.image.name": "localhost/a:dev"}
    manifest = json.loads(blobs["blobs/" + entry["digest"].replace(":", "/")])
    assert [layer["digest"] for layer in manifest["layers"]] == [sha(BASE), sha(LIBRARIES), sha(CODE)]
    assert [layer["size"] for layer in manifest["layers"]] == [len(BASE), len(LIBRARIES), len(CODE)]
    config = blobs["blobs/" + manifest["config"]["digest"].replace(":", "/")]
    assert json.loads(config)["n"] == 0


def test_the_same_layer_on_another_base_is_sent(tmp_path: Path) -> None:
    docker_save(tmp_path / "saved.tar", {"localhost/a:dev": [BASE, CODE]})
    write_archive(tmp_path / "saved.tar", tmp_path / "out.tar", chain_ids([sha(OTHER), sha(CODE)]))
    assert {BASE, CODE} <= set(read(tmp_path / "out.tar").values())


def test_a_layer_that_two_images_share_is_sent_once(tmp_path: Path) -> None:
    docker_save(tmp_path / "saved.tar", {"localhost/a:dev": [BASE, CODE], "localhost/b:dev": [BASE, OTHER]})
    write_archive(tmp_path / "saved.tar", tmp_path / "out.tar", [])
    with tarfile.open(tmp_path / "out.tar") as tar:
        names = tar.getnames()
    assert len(names) == len(set(names))
    assert {BASE, CODE, OTHER} <= set(read(tmp_path / "out.tar").values())


@pytest.mark.parametrize(("packed", "media_type"), [(False, "tar"), (True, "tar+gzip")])
def test_layers_keep_their_form(tmp_path: Path, packed: bool, media_type: str) -> None:
    docker_save(tmp_path / "saved.tar", {"localhost/a:dev": [BASE]}, packed=packed)
    write_archive(tmp_path / "saved.tar", tmp_path / "out.tar", [])
    blobs = read(tmp_path / "out.tar")
    digest = json.loads(blobs["index.json"])["manifests"][0]["digest"]
    layer = json.loads(blobs["blobs/" + digest.replace(":", "/")])["layers"][0]
    assert layer["mediaType"].endswith(media_type)
    assert sha(blobs["blobs/" + layer["digest"].replace(":", "/")]) == layer["digest"]


def test_finished_snapshots_are_told_from_running_containers() -> None:
    listed = f"KEY PARENT KIND\n0abc {sha(BASE)} Active\n{sha(BASE)}  Committed\n{sha(CODE)} {sha(BASE)} Committed\n"
    assert snapshots(listed) == {sha(BASE), sha(CODE)}


def test_a_node_lacks_images_that_are_absent_or_older() -> None:
    listed = json.dumps(
        {"images": [{"id": "sha256:1", "repoTags": ["a:dev"]}, {"id": "sha256:2", "repoTags": ["b:dev"]}, {"id": "x"}]}
    )
    assert missing_images({"a:dev": "sha256:1", "b:dev": "sha256:3", "c:dev": "sha256:4"}, listed) == ["b:dev", "c:dev"]
