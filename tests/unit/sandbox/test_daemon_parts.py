"""The decisions inside sandboxd that need no process: what is kept, what counts as memory, what the command line means."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from sandboxd.kernel import Cgroup
from sandboxd.ring import Ring
from sandboxd.start import parse

SOURCE = Path(__file__).parents[3] / "sandbox_image"


@given(st.integers(1, 50), st.lists(st.binary(max_size=30), max_size=30), st.integers(-60, 400), st.integers(0, 60))
def test_a_ring_is_the_end_of_all_it_was_given(capacity: int, parts: list[bytes], offset: int, limit: int) -> None:
    ring = Ring(capacity)
    for part in parts:
        ring.append(part)
    whole = b"".join(parts)
    kept_from = max(0, len(whole) - capacity)
    start = min(max(len(whole) + offset if offset < 0 else offset, kept_from), len(whole))
    assert ring.total == len(whole)
    assert ring.read(offset, limit) == (start, whole[start : start + limit])


def test_single_bytes_cost_no_more_than_their_bytes() -> None:
    ring = Ring(200_000)
    for _ in range(300_000):
        ring.append(b"x")
    assert ring.size == 200_000
    assert len(ring.parts) < 60


def tree(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return str(root)


def test_page_cache_does_not_count_as_memory_in_version_2(tmp_path: Path) -> None:
    root = tree(tmp_path, {
        "memory.current": "900\n", "memory.max": "1000\n", "pids.max": "max\n",
        "memory.stat": "anon 300\ninactive_file 400\nactive_file 100\nshmem 100\n", "memory.events": "oom 1\noom_kill 3\n",
    })  # fmt: skip
    group = Cgroup(root)
    assert (group.memory_limit, group.memory_used(), group.pids_limit, group.kernel_kills()) == (1000, 400, 0, 3)


def test_page_cache_does_not_count_as_memory_in_version_1(tmp_path: Path) -> None:
    root = tree(tmp_path, {
        "memory/memory.usage_in_bytes": "900", "memory/memory.limit_in_bytes": "1000",
        "pids/pids.max": "77",
        "memory/memory.stat": "total_inactive_file 400\ntotal_active_file 100\n",
        "memory/memory.oom_control": "oom_kill 2\n",
    })  # fmt: skip
    group = Cgroup(root)
    assert (group.memory_limit, group.memory_used(), group.pids_limit, group.kernel_kills()) == (1000, 400, 77, 2)


def test_no_limit_is_no_limit(tmp_path: Path) -> None:
    assert Cgroup(tree(tmp_path, {"memory.current": "9", "memory.max": "max"})).memory_limit == 0
    assert Cgroup(str(tmp_path / "absent")).memory_limit == 0


def test_the_command_line() -> None:
    options = parse(["--socket", "/s", "--peer-uid=7", "--memory-limit-bytes", "auto", "--allow-root", "/a"])
    assert (options["socket"], options["peer_uid"], options["memory_limit_bytes"], options["allow_root"]) == (
        "/s",
        7,
        0,
        ["/a"],
    )
    with pytest.raises(SystemExit, match="--nonsense: unknown"):
        parse(["--nonsense", "1"])
    with pytest.raises(SystemExit, match="--peer-uid: x is not a whole number"):
        parse(["--peer-uid", "x"])


def test_the_daemon_is_python_3_8() -> None:
    for path in SOURCE.rglob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 8))


def test_the_daemon_imports_nothing_slow() -> None:
    """The first command of a cold pod waits for these imports."""
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); import sandboxd.start; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    slow = {"asyncio", "subprocess", "typing", "threading", "argparse", "logging", "tempfile", "shutil", "ctypes", "inspect"}
    assert not loaded & slow
