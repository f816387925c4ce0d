"""Which images a node lacks, and putting them there."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cluster import kind, transfer
from cluster.console import ClusterError, Console, output, run_logged
from cluster.settings import Settings
from cluster.toolbox import Toolbox

SAVE_SECONDS = 600.0


def missing_images(wanted: Mapping[str, str], listed: str) -> list[str]:
    """Names of the images that a node lacks or has in another version.

    `wanted` maps names to image ids, `listed` is what `crictl images -o json` prints on the node.
    """
    there = {tag: image["id"] for image in json.loads(listed)["images"] for tag in image.get("repoTags") or []}
    return [name for name, identifier in wanted.items() if there.get(name) != identifier]


def load(console: Console, settings: Settings, tools: Toolbox, name: str, images: Iterable[str]) -> None:
    """Put images of the engine on every node of cluster `name` that lacks them."""
    wanted = {image: _image_id(tools, image) for image in images}
    for node in kind.nodes(tools, name):
        listing = [str(tools.program("docker")), "exec", node, "crictl", "images", "-o", "json"]
        lacking = missing_images(wanted, output(listing, environ=tools.environ))
        if not lacking:
            console.say(f"{node} has them all")
            continue
        try:
            _send_layers(console, tools, node, lacking)
        except ClusterError as error:
            console.say(f"{error}; loading whole images instead")
            command = [str(tools.program("kind")), "load", "docker-image", "--name", name, "--nodes", node, *lacking]
            log = settings.kubeconfig(name).parent / "load.log"
            run_logged(console, f"loading {len(lacking)} image(s)", command, log, environ=tools.environ)


def _send_layers(console: Console, tools: Toolbox, node: str, images: Sequence[str]) -> None:
    docker = tools.program("docker")
    names = ", ".join(image.rpartition("/")[2] for image in images)
    console.say(f"loading {names} into {node}")
    listed = output([docker, "exec", node, "ctr", "-n", "k8s.io", "snapshots", "ls"], environ=tools.environ)
    with tempfile.TemporaryDirectory(prefix="hermes-load-") as folder:
        saved, archive = Path(folder) / "saved.tar", Path(folder) / "layers.tar"
        output([docker, "save", "--output", saved, *images], environ=tools.environ, seconds=SAVE_SECONDS)
        size = transfer.write_archive(saved, archive, transfer.snapshots(listed))
        transfer.import_archive(docker, node, archive)
    console.say(f"  {size / 1e6:.0f} MB were new to {node}")


def _image_id(tools: Toolbox, image: str) -> str:
    command = [str(tools.program("docker")), "image", "inspect", "--format", "{{.Id}}", image]
    try:
        return output(command, environ=tools.environ).strip()
    except ClusterError as error:
        raise ClusterError(f"the engine has no image {image}; build or pull it first") from error
