"""A workspace that is taken from one sandbox and put into another is the same workspace."""

import os
import stat
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from hermes_agent.sandbox import Invalid, OutsideWorkspace, Sandbox, Settling, TooLarge
from hermes_agent.workspace.manifest import Manifest
from hermes_agent.workspace.restore import clear, restore
from hermes_agent.workspace.snapshot import Snapshot, take
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import PIECE_BYTES

ROOM = 1 << 30
LATER_NS = 10_000_000_000


class Shelf:
    """Pieces in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def claim(self, digests: Sequence[str]) -> frozenset[str]:
        return frozenset(digests) - self.kept.keys()

    async def put(self, digest: str, packed: bytes) -> None:
        self.kept[digest] = packed

    async def get(self, digest: str) -> bytes:
        if digest not in self.kept:
            raise HermesError(ErrorCode.NOT_FOUND, f"there is no piece {digest}")
        return self.kept[digest]


def picture(root: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a directory that a person could tell apart."""
    seen: dict[str, tuple[object, ...]] = {}
    for path in sorted(root.rglob("*")):
        info = path.lstat()
        content: object = None
        if path.is_symlink():
            content = str(path.readlink())
        elif path.is_file():
            content = path.read_bytes()
        mode = None if path.is_symlink() else stat.S_IMODE(info.st_mode)
        links = info.st_nlink if path.is_file() and not path.is_symlink() else 0
        seen[str(path.relative_to(root))] = (stat.S_IFMT(info.st_mode), mode, info.st_mtime_ns, content, links)
    return seen


def fill(root: Path) -> None:
    """A workspace with one of each thing."""
    (root / "src/deep").mkdir(parents=True)
    (root / "src/main.py").write_text("print('hi')\n")
    (root / "src/run.sh").write_text("#!/bin/sh\n")
    (root / "src/run.sh").chmod(0o750)
    (root / "src/deep/big.bin").write_bytes(os.urandom(PIECE_BYTES + 12_345))
    (root / "src/secret").write_text("for me alone")
    (root / "src/secret").chmod(0o400)
    (root / "empty").mkdir(mode=0o711)
    (root / "nothing").touch()
    (root / "übung ✓.txt").write_text("names are text")
    (root / "src/link").symlink_to("main.py")
    (root / "out").symlink_to("/etc/passwd")
    (root / "loop").symlink_to("loop")
    os.link(root / "src/main.py", root / "src/twin.py")
    os.utime(root / "src/main.py", ns=(1_500_000_000_123_456_789, 1_500_000_000_123_456_789))
    os.utime(root / "empty", ns=(1_400_000_000_000_000_001, 1_400_000_000_000_000_001))


class Daemon(Protocol):
    """What these tests use of a daemon."""

    workspace: Path


Start = Callable[..., Awaitable[tuple[Daemon, Sandbox]]]


async def snapshot(sandbox: Sandbox, shelf: Shelf, before: Snapshot | None = None, later: int = 0) -> Snapshot:
    seen, kept = (before.seen, before.manifest.pieces()) if before else ({}, frozenset[str]())
    return await take(sandbox, shelf, seen, kept, max_bytes=ROOM, now_ns=lambda: time.time_ns() + later)


async def test_every_kind_of_file_comes_back_as_it_was(start: Start) -> None:
    one, sandbox = await start()
    fill(one.workspace)
    shelf = Shelf()
    taken = await snapshot(sandbox, shelf)
    assert taken.left_out == ()

    other, fresh = await start()
    await restore(fresh, shelf, Manifest.model_validate_json(taken.manifest.model_dump_json()))
    assert picture(other.workspace) == picture(one.workspace)


async def test_a_directory_that_nobody_may_write_to_is_filled_all_the_same(start: Start) -> None:
    one, sandbox = await start()
    (one.workspace / "locked/in").mkdir(parents=True)
    (one.workspace / "locked/in/file").write_text("x")
    (one.workspace / "locked/in").chmod(0o555)
    (one.workspace / "locked").chmod(0o555)
    shelf = Shelf()
    taken = await snapshot(sandbox, shelf)

    other, fresh = await start()
    await restore(fresh, shelf, taken.manifest)
    assert picture(other.workspace) == picture(one.workspace)


async def test_only_what_changed_is_sent(start: Start) -> None:
    one, sandbox = await start()
    fill(one.workspace)
    shelf = Shelf()
    first = await snapshot(sandbox, shelf, later=LATER_NS)
    assert first.sent_bytes > PIECE_BYTES

    second = await snapshot(sandbox, shelf, first, later=LATER_NS)
    assert (second.sent_bytes, second.manifest.entries) == (0, first.manifest.entries)

    (one.workspace / "src/new.txt").write_text("one more")
    (one.workspace / "src/deep/big.bin").rename(one.workspace / "moved.bin")
    third = await snapshot(sandbox, shelf, second, later=LATER_NS)
    assert 0 < third.sent_bytes < 100
    assert {entry.path for entry in third.manifest.entries} >= {"moved.bin", "src/new.txt"}


async def test_a_change_that_keeps_size_and_time_is_seen(start: Start) -> None:
    one, sandbox = await start()
    file = one.workspace / "counter"
    file.write_text("1")
    when = file.stat().st_mtime_ns
    shelf = Shelf()
    first = await snapshot(sandbox, shelf)
    file.write_text("2")
    os.utime(file, ns=(when, when))
    second = await snapshot(sandbox, shelf, first)
    assert second.manifest.pieces() != first.manifest.pieces()


async def test_what_cannot_be_kept_is_said(start: Start) -> None:
    one, sandbox = await start()
    (one.workspace / "good").write_text("kept")
    os.mkfifo(one.workspace / "pipe")
    Path(os.fsdecode(os.fsencode(one.workspace) + b"/caf\xe9")).write_text("latin")
    with (one.workspace / "huge").open("wb") as file:
        file.truncate(513 * 1024 * 1024)
    os.link(one.workspace / "huge", one.workspace / "huger")
    taken = await snapshot(sandbox, Shelf())
    assert [entry.path for entry in taken.manifest.entries] == ["good"]
    said = {item.path: item.why for item in taken.left_out}
    assert "UTF-8" in said["caf\ufffd"]
    assert "neither" in said["pipe"]
    assert "bytes" in said["huge"]
    assert "huge" in said["huger"]


async def test_a_workspace_beyond_its_bound_is_refused_in_words(start: Start) -> None:
    one, sandbox = await start()
    (one.workspace / "file").write_bytes(b"x" * 2000)
    with pytest.raises(TooLarge, match="1000 bytes"):
        await take(sandbox, Shelf(), {}, frozenset(), max_bytes=1000)


async def test_what_is_damaged_or_gone_is_said_and_the_rest_is_there(start: Start) -> None:
    one, sandbox = await start()
    (one.workspace / "bad").write_text("the truth")
    os.link(one.workspace / "bad", one.workspace / "twin")
    (one.workspace / "gone").write_text("soon gone")
    (one.workspace / "good").write_text("still there")
    shelf = Shelf()
    taken = await snapshot(sandbox, shelf)
    pieces = {entry.path: entry.pieces for entry in taken.manifest.entries}
    shelf.kept[pieces["bad"][0]] = b"\0the untruth"
    del shelf.kept[pieces["gone"][0]]

    other, fresh = await start()
    lost = await restore(fresh, shelf, taken.manifest)
    assert [(path.name, path.read_text()) for path in other.workspace.iterdir()] == [("good", "still there")]
    assert {item.path for item in lost} == {"bad", "twin", "gone"}
    assert all("damaged or gone" in item.why for item in lost)


async def test_files_without_room_are_said(start: Start) -> None:
    one, sandbox = await start()
    (one.workspace / "large").write_bytes(os.urandom(3_000_000))
    (one.workspace / "small").write_text("x")
    shelf = Shelf()
    taken = await snapshot(sandbox, shelf)
    other, fresh = await start("--max-workspace-bytes", "1000000")
    lost = await restore(fresh, shelf, taken.manifest)
    assert [(item.path, "no room" in item.why) for item in lost] == [("large", True)]
    assert [path.name for path in other.workspace.iterdir()] == ["small"]


async def test_a_restore_that_was_cut_short_is_begun_again(start: Start) -> None:
    one, sandbox = await start()
    fill(one.workspace)
    shelf = Shelf()
    taken = await snapshot(sandbox, shelf)
    other, fresh = await start()
    await restore(fresh, shelf, taken.manifest)
    (other.workspace / "src/deep").chmod(0o555)
    await clear(fresh)
    assert list(other.workspace.iterdir()) == []
    await restore(fresh, shelf, taken.manifest)
    assert picture(other.workspace) == picture(one.workspace)


@pytest.mark.parametrize("path", ["../outside", "/etc/outside", "a/../../outside"])
async def test_no_name_leads_out(sandbox: Sandbox, path: str) -> None:
    with pytest.raises(Invalid, match="path"):
        await sandbox.settle([Settling(path=path, type="directory")])


async def test_no_name_leads_out_over_a_link_made_just_before(start: Start, tmp_path: Path) -> None:
    _, sandbox = await start("--allow-root", "/nowhere")
    outside = tmp_path / "outside"
    outside.mkdir()
    with pytest.raises(OutsideWorkspace):
        await sandbox.settle(
            [
                Settling(path="door", type="link", target=str(outside)),
                Settling(path="door/in", type="directory"),
            ]
        )
    assert list(outside.iterdir()) == []


async def test_a_mode_is_not_set_through_a_link(start: Start, tmp_path: Path) -> None:
    one, sandbox = await start()
    victim = tmp_path / "victim"
    victim.write_text("")
    victim.chmod(0o600)
    (one.workspace / "file").symlink_to(victim)
    with pytest.raises(Invalid, match="is a link"):
        await sandbox.settle([Settling(path="file", type="file", mode=0o777)])
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600
