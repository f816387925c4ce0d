"""`up` and `down` with programs that only record how they were called."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from cluster import commands
from cluster.console import ClusterError, Console
from cluster.settings import Settings, read_settings

DOCKER = """case "$*" in
  --version) echo "Docker version 20.10.24, build 1" ;;
  "ps -aq"*) cat "$WORLD/clusters" ;;
  "version"*) echo 20.10.24 ;;
esac"""
KIND = """case "$1 $2" in
  "get clusters") cat "$WORLD/clusters" ;;
  "get nodes") echo hermes-control-plane ;;
  "create cluster") echo hermes > "$WORLD/clusters"; echo yes > "$WORLD/answers" ;;
  "delete cluster") : > "$WORLD/clusters" ;;
esac"""
KUBECTL = '[ -s "$WORLD/answers" ]'


class World:
    """A machine with an engine, public images, and recorded calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, body in (("docker", DOCKER), ("kind", KIND), ("kubectl", KUBECTL), ("helm", "")):
            program = folder / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(f'#!/bin/sh\nWORLD={folder}\necho "{name} $*" >> $WORLD/calls\n{body}\n')
            program.chmod(0o755)
        for name in ("clusters", "answers", "calls"):
            (folder / name).touch()
        self.said = io.StringIO()

    @property
    def settings(self) -> Settings:
        cache = str(self.folder / "cache")
        path = f"{self.folder / 'bin'}:/usr/bin:/bin"
        return read_settings({"HERMES_CLUSTER_CACHE": cache, "HERMES_CLUSTER_SOURCE": "public", "PATH": path})

    def up(self) -> None:
        commands.up(Console(self.said), self.settings, "hermes", 0, patience=0.1)

    def calls(self, start: str) -> int:
        return sum(line.startswith(start) for line in (self.folder / "calls").read_text().splitlines())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_up_twice_creates_once(world: World) -> None:
    world.up()
    world.up()
    assert world.calls("kind create cluster") == 1
    assert "is up with 1 node" in world.said.getvalue()


def test_a_finished_cluster_that_does_not_answer_is_never_deleted(world: World) -> None:
    world.up()
    (world.folder / "answers").write_text("")
    with pytest.raises(ClusterError, match="down --name hermes"):
        world.up()
    assert world.calls("docker start hermes-control-plane") == 1
    assert world.calls("kind delete cluster") == 0


def test_a_cluster_that_answers_is_kept_when_our_notes_are_gone(world: World) -> None:
    (world.folder / "clusters").write_text("hermes\n")
    (world.folder / "answers").write_text("yes")
    world.up()
    (world.folder / "answers").write_text("")
    with pytest.raises(ClusterError):
        world.up()
    assert world.calls("kind delete cluster") == 0


def test_a_half_made_cluster_is_made_again(world: World) -> None:
    (world.folder / "clusters").write_text("hermes\n")
    world.up()
    assert world.calls("kind delete cluster") == 1
    assert world.calls("kind create cluster") == 1


def test_down_deletes_the_cluster_and_leaves_an_engine_of_others_alone(world: World) -> None:
    world.up()
    commands.down(Console(world.said), world.settings, "hermes")
    assert world.calls("kind delete cluster") == 1
    assert world.calls("docker network rm") == 0
    commands.down(Console(world.said), world.settings, "hermes")
    with pytest.raises(ClusterError, match="up --name hermes"):
        commands.kubeconfig(world.settings, "hermes")


def test_down_keeps_the_engine_while_another_cluster_is_in_it(world: World) -> None:
    world.up()
    kind = world.folder / "bin/kind"
    kind.write_text(kind.read_text().replace(': > "$WORLD/clusters"', 'echo other > "$WORLD/clusters"'))
    commands.down(Console(world.said), world.settings, "hermes")
    assert "other clusters still run: other" in world.said.getvalue()
    assert "images: public" in commands.status(world.settings, "hermes")
