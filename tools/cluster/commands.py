"""What each command does, from the parts in the other modules."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cluster import engine, images, kind, loading, toolbox
from cluster.console import ClusterError, Console, succeeds
from cluster.node_image import ensure_node_image
from cluster.settings import Settings

REVIVE_SECONDS = 180.0


@contextmanager
def exclusive(console: Console, settings: Settings) -> Iterator[None]:
    """Hold the cache's lock, so that two runs never build or start the same thing."""
    settings.cache.mkdir(parents=True, exist_ok=True)
    with (settings.cache / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            console.say("waiting for another run of this tool to end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def up(console: Console, settings: Settings, name: str, workers: int, *, patience: float = REVIVE_SECONDS) -> None:
    """Bring cluster `name` up; one that runs already is left as it is.

    Raises ClusterError when one that was finished once does not answer within `patience` seconds.
    """
    tools = toolbox.prepare(console, settings)
    if name in kind.clusters(tools):
        kind.start_nodes(settings, tools, name)
        if kind.was_made(settings, name) or kind.answers(tools, settings, name):
            _revive(console, settings, tools, name, patience)
            console.say(f"cluster {name} is up with {len(kind.nodes(tools, name))} node(s)")
            return
        console.say(f"cluster {name} was never finished, so it is made again")
        kind.delete(console, settings, tools, name)
    image = None if tools.public else ensure_node_image(console, settings, tools.program("docker"), tools.environ)
    kind.create(console, settings, tools, name, workers, image)
    console.say(f'cluster {name} is up. Use it with: eval "$(python3 -m cluster env --name {name})"')


def down(console: Console, settings: Settings, name: str) -> None:
    """Delete cluster `name`; stop the engine too if we started it and no other cluster is in it."""
    tools = toolbox.existing(settings)
    if tools is not None:
        kind.delete(console, settings, tools, name)
        others = kind.clusters(tools)
        if others:
            console.say(f"other clusters still run: {', '.join(others)}; the engine is left running")
            return
        if engine.our_pid(settings) is not None:
            succeeds([tools.program("docker"), "network", "rm", "kind"], environ=tools.environ)
    engine.stop(console, settings)
    (settings.state / "source").unlink(missing_ok=True)
    console.say("down")


def build_images(console: Console, settings: Settings, name: str, only: Sequence[str]) -> None:
    """Build our images whose inputs changed, and load them where cluster `name` runs."""
    tools = toolbox.existing(settings) or toolbox.prepare(console, settings)
    tags = images.build(console, settings, tools, only)
    if name in kind.clusters(tools):
        loading.load(console, settings, tools, name, tags)
    else:
        console.say(f"no cluster {name} is up, so the images stay in the engine")


def load(console: Console, settings: Settings, name: str, tags: Sequence[str]) -> None:
    """Load images of the engine into cluster `name`."""
    loading.load(console, settings, _running(settings, name), name, tags)


def status(settings: Settings, name: str) -> str:
    """A few lines about the engine and the cluster."""
    tools = toolbox.existing(settings)
    if tools is None:
        return "no engine of this tool runs; start with: python3 -m cluster up"
    pid = engine.our_pid(settings)
    lines = [
        f"engine: {f'started here, process {pid}' if pid else 'was running already'}",
        f"images: {'public' if tools.public else 'built here'}",
        f"clusters: {', '.join(kind.clusters(tools)) or 'none'}",
    ]
    if name in kind.clusters(tools):
        lines.append(f"{name}: {'ready' if kind.answers(tools, settings, name) else 'does not answer'}")
        lines.append(kind.kubectl(tools, settings, name, "get", "nodes", "-o", "wide").rstrip())
    return "\n".join(lines)


def environment(settings: Settings, name: str) -> str:
    """Shell lines that put docker, kind, kubectl and helm on the PATH and choose the cluster."""
    return "\n".join(
        [
            f'export PATH="{settings.state / "bin"}{os.pathsep}$PATH"',
            f'export KUBECONFIG="{settings.kubeconfig(name)}"',
            "export DOCKER_BUILDKIT=1",
        ]
    )


def kubeconfig(settings: Settings, name: str) -> Path:
    """Path of the kubeconfig; raises ClusterError when the cluster was never made."""
    path = settings.kubeconfig(name)
    if not path.exists():
        raise ClusterError(f"no cluster {name}; start it with: python3 -m cluster up --name {name}")
    return path


def _running(settings: Settings, name: str) -> toolbox.Toolbox:
    tools = toolbox.existing(settings)
    if tools is None or name not in kind.clusters(tools):
        raise ClusterError(f"cluster {name} is not up; start it with: python3 -m cluster up --name {name}")
    return tools


def _revive(console: Console, settings: Settings, tools: toolbox.Toolbox, name: str, patience: float) -> None:
    """Make an existing cluster answer, once its nodes, which a reboot stops, are started.

    Raises ClusterError when it does not: what is in it is somebody's, and only `down` deletes it.
    """
    if not kind.answers(tools, settings, name):
        console.say(f"cluster {name} does not answer yet: waiting up to {patience:.0f} s")
        deadline = time.monotonic() + patience
        while not kind.answers(tools, settings, name):
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"cluster {name} does not answer after {patience:.0f} s. To make it again, without what is in it: "
                    f"python3 -m cluster down --name {name}, then up"
                )
            time.sleep(1)
    kind.wait_ready(console, settings, tools, name)
    kind.mark_made(settings, name)
