"""Images from the engine to a node, without the layers that the node has unpacked already.

`docker save` writes whole images, and `kind load` copies them whole. A changed line of code is then hundreds of
megabytes; here it is one small layer.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cluster.console import ClusterError

PIECE = 1 << 20
IMPORT_SECONDS = 600.0


@dataclass(frozen=True)
class Blob:
    """Where a piece of an image lies in the saved archive, and its OCI descriptor."""

    member: str
    media_type: str
    digest: str
    size: int

    def descriptor(self) -> dict[str, object]:
        """The descriptor as a manifest holds it."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


def chain_ids(layers: Sequence[str]) -> list[str]:
    """Names of the snapshots that the layers, applied one on another, make. `layers` are hashes of uncompressed tars."""
    chain: list[str] = []
    for layer in layers:
        joined = f"{chain[-1]} {layer}".encode() if chain else b""
        chain.append("sha256:" + hashlib.sha256(joined).hexdigest() if chain else layer)
    return chain


def snapshots(listed: str) -> set[str]:
    """Names of finished snapshots, from what `ctr snapshots ls` prints."""
    rows = [line.split() for line in listed.splitlines()]
    return {row[0] for row in rows if row and row[0].startswith("sha256:") and row[-1] == "Committed"}


def write_archive(saved: Path, out: Path, present: Collection[str]) -> int:
    """Rewrite what `docker save` wrote as an OCI archive without the layers of the `present` snapshots.

    Returns the bytes of layers that are left in.
    """
    with tarfile.open(saved) as source, tarfile.open(out, "w") as target:
        images = json.loads(_read(source, "manifest.json"))
        written: set[str] = set()
        index = []
        for image in images:
            config = _read(source, image["Config"])
            blobs = [_layer(source, member) for member in image["Layers"]]
            chain = chain_ids(json.loads(config)["rootfs"]["diff_ids"])
            for blob, snapshot in zip(blobs, chain, strict=True):
                if snapshot not in present and blob.digest not in written:
                    with _open(source, blob.member) as data:
                        _put(target, _path(blob.digest), data, blob.size)
                    written.add(blob.digest)
            manifest = _manifest(config, blobs)
            for data_bytes in (config, manifest):
                _put(target, _path(_digest(data_bytes)), io.BytesIO(data_bytes), len(data_bytes))
            index += [_entry(manifest, name) for name in image["RepoTags"]]
        text = json.dumps({"schemaVersion": 2, "manifests": index}).encode()
        _put(target, "index.json", io.BytesIO(text), len(text))
        layout = b'{"imageLayoutVersion": "1.0.0"}'
        _put(target, "oci-layout", io.BytesIO(layout), len(layout))
        return sum(member.size for member in target.getmembers())


def import_archive(docker: Path, node: str, archive: Path) -> None:
    """Import an archive into a node's containerd. Raises ClusterError with what containerd said."""
    command = [str(docker), "exec", "-i", node, "ctr", "-n", "k8s.io", "images", "import", "--all-platforms", "-"]
    try:
        with archive.open("rb") as data:
            done = subprocess.run(command, stdin=data, capture_output=True, check=False, timeout=IMPORT_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"{node} did not take the images within {IMPORT_SECONDS:.0f} s") from error
    if done.returncode != 0:
        raise ClusterError(f"{node} refused the images: {done.stderr.decode(errors='replace').strip()[-500:]}")


def _manifest(config: bytes, layers: Sequence[Blob]) -> bytes:
    media_type = "application/vnd.oci.image.config.v1+json"
    return json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": Blob("", media_type, _digest(config), len(config)).descriptor(),
            "layers": [layer.descriptor() for layer in layers],
        }
    ).encode()


def _entry(manifest: bytes, name: str) -> dict[str, object]:
    blob = Blob("", "application/vnd.oci.image.manifest.v1+json", _digest(manifest), len(manifest))
    return {**blob.descriptor(), "annotations": {"io.containerd.image.name": name}}


def _layer(source: tarfile.TarFile, member: str) -> Blob:
    digest = hashlib.sha256()
    size = 0
    with _open(source, member) as data:
        first = data.read(PIECE)
        piece = first
        while piece:
            digest.update(piece)
            size += len(piece)
            piece = data.read(PIECE)
    packed = "+gzip" if first[:2] == b"\x1f\x8b" else ""
    return Blob(member, f"application/vnd.oci.image.layer.v1.tar{packed}", f"sha256:{digest.hexdigest()}", size)


def _open(source: tarfile.TarFile, member: str) -> IO[bytes]:
    data = source.extractfile(member)
    if data is None:
        raise ClusterError(f"docker save wrote {member} as something that is not a file")
    return data


def _read(source: tarfile.TarFile, member: str) -> bytes:
    with _open(source, member) as data:
        return data.read()


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _path(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/")


def _put(target: tarfile.TarFile, name: str, data: IO[bytes], size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = size
    target.addfile(entry, data)
