"""Container images written as an archive that `ctr images import` reads, without a builder."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

SEARCH_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Layer:
    """Files of one layer: `files` maps a path in the image to a file here, `links` a path to its target.

    `tar` is a ready layer instead.
    """

    files: Mapping[str, Path] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    tar: Path | None = None


@dataclass(frozen=True)
class Image:
    """One image: its names, its layers by name, and what it starts."""

    names: Sequence[str]
    layers: Sequence[str]
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()


def layer_bytes(layer: Layer) -> bytes:
    """The layer as an uncompressed tar; equal inputs give equal bytes."""
    if layer.tar is not None:
        return layer.tar.read_bytes()
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for folder in _parents([*layer.files, *layer.links]):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        for name, source in sorted(layer.files.items()):
            entry = tarfile.TarInfo(name)
            data = source.read_bytes()
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
        for name, target in sorted(layer.links.items()):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return raw.getvalue()


def write_images(out: Path, layers: Mapping[str, Layer], images: Sequence[Image], architecture: str) -> None:
    """Write every image with the layers it shares into one archive of `docker save`'s format."""
    with tarfile.open(out, "w") as tar:
        hashes: dict[str, str] = {}
        for name, layer in layers.items():
            raw = layer_bytes(layer)
            hashes[name] = "sha256:" + hashlib.sha256(raw).hexdigest()
            _put(tar, f"{name}.tar.gz", gzip.compress(raw, 1, mtime=0))
        manifest = []
        for image in images:
            config = _config(image, [hashes[name] for name in image.layers], architecture)
            name = hashlib.sha256(config).hexdigest() + ".json"
            _put(tar, name, config)
            files = [f"{layer}.tar.gz" for layer in image.layers]
            manifest.append({"Config": name, "RepoTags": list(image.names), "Layers": files})
        _put(tar, "manifest.json", json.dumps(manifest).encode())


def _config(image: Image, hashes: Sequence[str], architecture: str) -> bytes:
    settings = {"Env": [SEARCH_PATH], "Entrypoint": list(image.entrypoint) or None, "Cmd": list(image.command) or None}
    layers = {"type": "layers", "diff_ids": list(hashes)}
    return json.dumps({"architecture": architecture, "os": "linux", "config": settings, "rootfs": layers}).encode()


def _parents(names: Sequence[str]) -> list[str]:
    folders = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    return sorted(folders - {"."})


def _put(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))
