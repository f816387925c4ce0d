"""A model's file tools: whole, atomic, inside the workspace, within the quota."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hermes_agent.sandbox import (
    AlreadyThere,
    ExecRequest,
    Invalid,
    IsDirectory,
    NotAFile,
    NotFound,
    OutsideWorkspace,
    PermissionDenied,
    QuotaExceeded,
    Sandbox,
    SandboxGone,
    SearchQuery,
    TooLarge,
)


async def test_bytes_come_back_as_they_went_in(sandbox: Sandbox) -> None:
    data = bytes(range(256)) * 10_000 + os.urandom(12_345)
    written = await sandbox.write_file("deep/er/file.bin", data)
    assert (written.size, written.created) == (len(data), True)
    assert await sandbox.read_file("deep/er/file.bin") == data
    assert await sandbox.read_file("deep/er/file.bin", offset=1000, length=300_000) == data[1000:301_000]
    assert await sandbox.read_file("deep/er/file.bin", offset=len(data) + 5, length=10) == b""


async def test_an_empty_file_is_a_file(sandbox: Sandbox) -> None:
    await sandbox.write_file("empty", b"")
    assert await sandbox.read_file("empty") == b""


async def test_replacing_a_file_keeps_its_mode(sandbox: Sandbox) -> None:
    await sandbox.write_file("run.sh", b"#!/bin/sh\n", mode=0o755)
    assert not (await sandbox.write_file("run.sh", b"#!/bin/sh\necho hi\n")).created
    assert (await sandbox.run(ExecRequest(argv=("./run.sh",)))).stdout == b"hi\n"


async def test_a_file_larger_than_wanted_is_refused_with_its_size(sandbox: Sandbox) -> None:
    await sandbox.run(ExecRequest(command="head -c 5000000 /dev/zero > big"))
    with pytest.raises(TooLarge, match="5000000"):
        await sandbox.read_file("big", max_bytes=1000)


async def test_errors_say_what_is_wrong(sandbox: Sandbox) -> None:
    await sandbox.run(ExecRequest(command="mkdir d; touch d/x; mkfifo fifo"))
    with pytest.raises(NotFound, match="no-file"):
        await sandbox.read_file("no-file")
    with pytest.raises(IsDirectory):
        await sandbox.read_file("d")
    with pytest.raises(IsDirectory):
        await sandbox.write_file("d", b"")
    with pytest.raises(NotAFile):
        await sandbox.read_file("fifo")
    with pytest.raises(AlreadyThere):
        await sandbox.remove("d")
    with pytest.raises(Invalid):
        await sandbox.write_file("n" * 300, b"")
    with pytest.raises(Invalid):
        await sandbox.read_file("nul\0")
    with pytest.raises(Invalid, match="cannot be removed"):
        await sandbox.remove(".", recursive=True)


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../../../../../../../../etc/passwd", "out", "outdir/passwd", "/proc/self/environ"]
)
async def test_paths_that_lead_out_are_refused(sandbox: Sandbox, path: str) -> None:
    await sandbox.run(ExecRequest(command="ln -s /etc/passwd out; ln -s /etc outdir"))
    with pytest.raises(OutsideWorkspace):
        await sandbox.read_file(path)
    with pytest.raises(OutsideWorkspace):
        await sandbox.write_file(path, b"x")
    with pytest.raises(OutsideWorkspace):
        await sandbox.list_directory(path)


async def test_removing_a_link_or_a_tree_with_links_leaves_their_targets(sandbox: Sandbox) -> None:
    await sandbox.run(ExecRequest(command="mkdir keep t; echo k > keep/k; ln -s $PWD/keep t/l; ln -s $PWD/keep l"))
    await sandbox.remove("l")
    await sandbox.remove("t", recursive=True)
    assert await sandbox.read_file("keep/k") == b"k\n"
    assert [entry.name for entry in (await sandbox.list_directory()).entries] == ["keep"]


async def test_listing_is_in_order_and_paged(sandbox: Sandbox) -> None:
    await sandbox.run(ExecRequest(command="seq -f 'f%04g' 1 1500 | xargs touch; touch $'bad\\xff'; mkdir f0000d"))
    first = await sandbox.list_directory(limit=2)
    assert [entry.name for entry in first.entries] == ["bad�", "f0000d"]
    assert first.total == 1502
    assert (await sandbox.list_directory(offset=1501)).entries[0].name == "f1500"


async def test_stat_move_and_mkdir(sandbox: Sandbox) -> None:
    await sandbox.mkdir("a/b")
    await sandbox.write_file("a/b/c", b"12345")
    await sandbox.move("a/b/c", "a/d")
    info = await sandbox.stat("a/d")
    assert (info.type, info.size, info.path) == ("file", 5, f"{await sandbox.workspace()}/a/d")
    with pytest.raises(NotFound):
        await sandbox.stat("a/b/c")


async def test_a_reader_sees_the_old_or_the_new_file_never_half(sandbox: Sandbox) -> None:
    old, new = b"o" * 700_000, b"n" * 700_000
    await sandbox.write_file("f", old)

    async def write() -> None:
        for number in range(10):
            await sandbox.write_file("f", (new, old)[number % 2])

    async with asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(write())
        while not writing.done():
            assert await sandbox.read_file("f") in (old, new)


async def test_a_daemon_killed_while_writing_leaves_the_old_file(start: Callable[..., Awaitable]) -> None:
    daemon, sandbox = await start()
    await sandbox.write_file("f", b"old")
    daemon_writes = asyncio.create_task(sandbox.write_file("f", b"n" * 60_000_000))
    async with asyncio.timeout(10):
        while "workspace" not in " ".join(map(os.readlink, Path(f"/proc/{daemon.pid}/fd").iterdir())):
            await asyncio.sleep(0.001)
    await daemon.stop(signal.SIGKILL)
    with pytest.raises(SandboxGone, match="restarted"):
        await daemon_writes
    assert (daemon.workspace / "f").read_bytes() == b"old"
    await daemon.start()
    assert await sandbox.read_file("f") == b"old"
    assert [entry.name for entry in (await sandbox.list_directory()).entries] == ["f"]


async def test_a_cancelled_write_leaves_nothing(sandbox: Sandbox) -> None:
    writing = asyncio.create_task(sandbox.write_file("f", b"n" * 60_000_000))
    await asyncio.sleep(0.01)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert (await sandbox.list_directory()).total == 0


async def test_writing_stops_at_the_quota_and_goes_on_when_there_is_room(start: Callable[..., Awaitable]) -> None:
    _, sandbox = await start("--max-workspace-bytes", "1000000")
    await sandbox.write_file("a", b"x" * 900_000)
    with pytest.raises(QuotaExceeded, match="workspace is full"):
        await sandbox.write_file("b", b"x" * 200_000)
    assert [entry.name for entry in (await sandbox.list_directory()).entries] == ["a"]
    await sandbox.remove("a")
    async with asyncio.timeout(10):
        while (await sandbox.status()).disk_used > 500_000:
            await sandbox.write_file("small", b"")
    await sandbox.write_file("b", b"x" * 200_000)


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
async def test_forbidden_files_are_forbidden(sandbox: Sandbox) -> None:
    await sandbox.run(ExecRequest(command="echo x > f; chmod 0 f"))
    with pytest.raises(PermissionDenied):
        await sandbox.read_file("f")


@pytest.mark.parametrize("with_ripgrep", [True, False])
async def test_search_finds_lines_and_files(
    start: Callable[..., Awaitable], tmp_path, monkeypatch, with_ripgrep: bool
) -> None:
    if not with_ripgrep:
        monkeypatch.setenv("PATH", "/nonexistent")
    _, sandbox = await start()
    await sandbox.write_file("src/a.py", b"one\ntwo needle\nthree\n")
    await sandbox.write_file("src/b.txt", b"needle\nneedle\n")
    await sandbox.write_file(".git/c", b"needle\n")
    found = await sandbox.search(SearchQuery(pattern=r"ne+dle$"))
    assert [(hit.path.rpartition("/")[2], hit.line, hit.text) for hit in found.hits] == [
        ("a.py", 2, "two needle"), ("b.txt", 1, "needle"), ("b.txt", 2, "needle"),
    ]  # fmt: skip
    found = await sandbox.search(SearchQuery(pattern="needle", glob="*.py", context=1))
    assert [(hit.line, hit.match) for hit in found.hits] == [(1, False), (2, True), (3, False)]
    found = await sandbox.search(SearchQuery(pattern="needle", offset=1, limit=1))
    assert ([hit.path[-5:] for hit in found.hits], found.more) == (["b.txt"], True)
    found = await sandbox.search(SearchQuery(pattern="*.py", target="files"))
    assert [hit.path for hit in found.hits] == [f"{await sandbox.workspace()}/src/a.py"]
    assert (await sandbox.search(SearchQuery(pattern="absent"))).hits == ()
    with pytest.raises(Invalid, match="pattern"):
        await sandbox.search(SearchQuery(pattern="("))
    with pytest.raises(OutsideWorkspace):
        await sandbox.search(SearchQuery(pattern="root", path="/etc"))
