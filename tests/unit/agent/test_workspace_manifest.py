"""What a snapshot may say, what it reads again, and that content is what its name says."""

import os
import zlib

import pytest
from pydantic import ValidationError

from hermes_agent.sandbox import TreeEntry
from hermes_agent.workspace.manifest import MAX_ENTRIES, Entry, Manifest
from hermes_agent.workspace.pieces import DamagedPiece, digest_of, pack, unpack
from hermes_agent.workspace.plan import RACY_NS, Seen, plan
from hermes_contracts.store_api import PIECE_BYTES

DIGEST = "a" * 64
NOW = 1_700_000_000_000_000_000


@pytest.mark.parametrize("path", ["/etc/passwd", "../up", "a/../../b", "a//b", "./a", "a/", ".", "..", "nul\0", ""])
def test_a_path_that_is_not_plainly_below_the_workspace_is_refused(path: str) -> None:
    with pytest.raises(ValidationError):
        Entry(path=path, type="directory")


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "link"},
        {"type": "hard"},
        {"type": "file", "target": "x"},
        {"type": "file", "size": 1},
        {"type": "file", "pieces": [DIGEST]},
        {"type": "file", "size": PIECE_BYTES + 1, "pieces": [DIGEST]},
        {"type": "directory", "size": 1},
        {"type": "directory", "pieces": [DIGEST]},
        {"type": "file", "size": 1, "pieces": ["../../etc/passwd"]},
        {"type": "file", "mode": 0o10000},
        {"type": "device"},
    ],
)
def test_an_entry_that_says_two_things_is_refused(entry: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Entry.model_validate({"path": "x", **entry})


@pytest.mark.parametrize(
    "entries",
    [
        (Entry(path="a/b", type="file"),),
        (Entry(path="a", type="link", target="/etc"), Entry(path="a/b", type="file")),
        (Entry(path="a", type="file"), Entry(path="a/b", type="file")),
        (Entry(path="a", type="file"), Entry(path="a", type="link", target="/etc")),
        (Entry(path="b", type="hard", target="a"), Entry(path="a", type="file")),
        (Entry(path="a", type="link", target="/etc/passwd"), Entry(path="b", type="hard", target="a")),
        (Entry(path="b", type="hard", target="/etc/passwd"),),
    ],
)
def test_a_tree_that_would_write_through_a_link_or_twice_is_refused(entries: tuple[Entry, ...]) -> None:
    with pytest.raises(ValidationError):
        Manifest(entries=entries)


def test_a_manifest_is_read_as_it_was_written() -> None:
    manifest = Manifest(
        entries=(
            Entry(path="a", type="directory", mode=0o755, mtime_ns=-5),
            Entry(path="a/f", type="file", size=1, pieces=(DIGEST,)),
            Entry(path="a/g", type="hard", target="a/f"),
            Entry(path="l", type="link", target="../anywhere"),
        ),
    )
    assert Manifest.model_validate_json(manifest.model_dump_json()) == manifest
    assert manifest.pieces() == {DIGEST}


def found(path: str, **given: object) -> TreeEntry:
    """A file that sandboxd lists."""
    return TreeEntry.model_validate({"path": path, "type": "file", "size": 1, "inode": 7, "ctime_ns": NOW, **given})


def seen(read_ns: int) -> Seen:
    """The same file, read before."""
    return Seen(1, 0, NOW, 7, read_ns, Entry(path="f", type="file", size=1, pieces=(DIGEST,)))


def test_a_file_that_is_surely_unchanged_is_not_read_again() -> None:
    planned = plan([found("f", mode=0o600)], {"f": seen(NOW + RACY_NS + 1)})
    assert planned.known["f"].pieces == (DIGEST,)


@pytest.mark.parametrize(
    ("change", "read_ns"),
    [
        ({"size": 2}, NOW + RACY_NS + 1),
        ({"mtime_ns": 1}, NOW + RACY_NS + 1),
        ({"ctime_ns": NOW - 1}, NOW + RACY_NS + 1),
        ({"inode": 8}, NOW + RACY_NS + 1),
        ({}, NOW + RACY_NS),
    ],
)
def test_a_file_that_may_have_changed_is_read_again(change: dict[str, object], read_ns: int) -> None:
    assert plan([found("f", **change)], {"f": seen(read_ns)}).known == {}


def test_too_many_names_are_left_out_and_said_one_by_one() -> None:
    planned = plan([found(f"f{number}") for number in range(MAX_ENTRIES + 2)], {})
    assert len(planned.found) == MAX_ENTRIES
    assert [item.path for item in planned.left_out] == [f"f{MAX_ENTRIES}", f"f{MAX_ENTRIES + 1}"]


@pytest.mark.parametrize("data", [b"", b"x", b"same " * 10_000, os.urandom(50_000)])
def test_a_piece_comes_back_as_it_went_in(data: bytes) -> None:
    packed = pack(data)
    assert len(packed) <= len(data) + 1
    assert unpack(packed, digest_of(data)) == data


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\0other",
        b"\1no deflate",
        b"\1" + zlib.compress(b"data")[:-2],
        b"\1" + zlib.compress(b"data") + b"more",
        b"\2data",
    ],
)
def test_a_damaged_piece_is_refused(packed: bytes) -> None:
    with pytest.raises(DamagedPiece):
        unpack(packed, digest_of(b"data"))


def test_a_piece_that_unpacks_to_very_much_is_refused_before_it_fills_the_memory() -> None:
    bomb = zlib.compress(bytes(64 * PIECE_BYTES))
    with pytest.raises(DamagedPiece, match="end is missing"):
        unpack(b"\1" + bomb, digest_of(b""))
