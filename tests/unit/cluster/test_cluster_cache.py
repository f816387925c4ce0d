"""A cache that is cut short, changed or half made repairs itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.cache import artefact, content_key, is_whole


class Maker:
    """Makes an artefact of two files, and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, folder: Path) -> None:
        self.calls += 1
        (folder / "program").write_bytes(b"x" * 1000)
        (folder / "inner").mkdir()
        (folder / "inner/data").write_text("data")
        (folder / "alias").symlink_to("program")


def test_a_whole_artefact_is_made_once(tmp_path: Path) -> None:
    make = Maker()
    first = artefact(tmp_path, "tool", "k1", make)
    assert artefact(tmp_path, "tool", "k1", make) == first
    assert make.calls == 1
    assert (first / "alias").read_bytes() == b"x" * 1000


@pytest.mark.parametrize("damage", ["cut", "changed", "gone", "no list", "no folder"])
def test_a_damaged_artefact_is_made_again(tmp_path: Path, damage: str) -> None:
    make = Maker()
    folder = artefact(tmp_path, "tool", "k1", make)
    match damage:
        case "cut":
            (folder / "program").write_bytes(b"x" * 10)
        case "changed":
            (folder / "program").write_bytes(b"y" * 1000)
        case "gone":
            (folder / "inner/data").unlink()
        case "no list":
            (folder / ".manifest.json").write_text("{ half")
        case "no folder":
            folder.rename(tmp_path / "elsewhere")
    assert not is_whole(folder)
    assert is_whole(artefact(tmp_path, "tool", "k1", make))
    assert make.calls == 2


def test_a_build_that_fails_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "program").write_text("half")
        raise RuntimeError("the network went away")

    with pytest.raises(RuntimeError):
        artefact(tmp_path, "tool", "k1", fail)
    make = Maker()
    folder = artefact(tmp_path, "tool", "k1", make)
    assert make.calls == 1
    assert (folder / "program").read_bytes() == b"x" * 1000


def test_a_new_key_replaces_the_old_one_and_leaves_other_artefacts(tmp_path: Path) -> None:
    old = artefact(tmp_path, "node", content_key(["1"]), Maker())
    other = artefact(tmp_path, "node-root", content_key(["1"]), Maker())
    artefact(tmp_path, "node", content_key(["2"]), Maker())
    assert not old.exists()
    assert is_whole(other)


def test_the_border_between_inputs_counts() -> None:
    assert content_key(["ab", "c"]) != content_key(["a", "bc"])
    assert content_key(["ab", b"c"]) == content_key([b"ab", "c"])
