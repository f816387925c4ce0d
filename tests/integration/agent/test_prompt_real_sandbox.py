"""What a prompt takes from a real sandbox whose workspace is laid out by somebody who means harm."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes_agent.loop.transcript import Transcript
from hermes_agent.model.hygiene import ParsedCall
from hermes_agent.prompt.directory_hints import DirectoryHints
from hermes_agent.prompt.gather import gather
from hermes_agent.prompt.skills import read_skills
from hermes_agent.tools.executor import Toolbox
from hermes_agent.tools.registry import tools_of
from hermes_agent.tools.sandbox_adapter import SandboxAdapter
from hermes_contracts.conversation import ToolResultPart

SANDBOX = Path(__file__).parents[3] / "sandbox_image"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
async def files(tmp_path: Path, workspace: Path) -> AsyncIterator[SandboxAdapter]:
    socket = tmp_path / "exec.sock"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", str(SANDBOX), "--socket", str(socket), "--workspace", str(workspace),
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    adapter = SandboxAdapter(str(socket))
    yield adapter
    await adapter.close()
    process.terminate()
    await process.wait()


async def test_a_project_is_read(files: SandboxAdapter, workspace: Path) -> None:
    (workspace / ".git").mkdir()
    (workspace / ".git/HEAD").write_text("ref: refs/heads/feat/x\n")
    (workspace / "src").mkdir()
    (workspace / "AGENTS.md").write_text("Use tabs. Grüße.")
    found = await gather(files, str(workspace), max_characters=1000)
    assert [(file.path, file.text) for file in found.files] == [("AGENTS.md", "Use tabs. Grüße.")]
    assert found.snapshot is not None
    assert (found.snapshot.branch, found.snapshot.entries) == ("feat/x", ("AGENTS.md", "src/"))


async def test_skills_are_read_and_traps_among_them_are_missed(files: SandboxAdapter, workspace: Path) -> None:
    for name in ("good", "pipe", "link", "folder"):
        (workspace / "skills" / name).mkdir(parents=True)
    (workspace / "skills/good/SKILL.md").write_text("Be brief. Grüße.")
    os.mkfifo(workspace / "skills/pipe/SKILL.md")
    (workspace / "skills/link/SKILL.md").symlink_to("/dev/zero")
    (workspace / "skills/folder/SKILL.md").mkdir()
    told = await read_skills(files, ("good", "pipe", "link", "folder", "none"))
    assert '<skill name="good">\nBe brief. Grüße.\n</skill>' in told
    assert all(f"{name} (not found)" in told for name in ("pipe", "link", "folder", "none"))


async def test_traps_count_as_not_there(files: SandboxAdapter, workspace: Path) -> None:
    (workspace / ".hermes.md").symlink_to("/etc/passwd")
    (workspace / "HERMES.md").symlink_to("/dev/zero")
    os.mkfifo(workspace / "AGENTS.md")
    (workspace / "CLAUDE.md").mkdir()
    (workspace / ".cursorrules").symlink_to(".cursorrules")
    (workspace / ".cursor").mkdir()
    (workspace / ".cursor/rules").symlink_to("/etc")
    (workspace / ".git").write_text("gitdir: /etc")
    started = time.monotonic()
    found = await gather(files, str(workspace), max_characters=1000)
    assert found.files == () and time.monotonic() - started < 4
    assert found.snapshot is not None and found.snapshot.branch == ""


async def test_a_huge_file_is_read_at_its_ends(files: SandboxAdapter, workspace: Path) -> None:
    with (workspace / "AGENTS.md").open("wb") as file:
        file.write(b"The beginning. ")
        file.truncate(50_000_000_000)
    (workspace / "CLAUDE.md").write_bytes(b"Head. " + b"x" * 5_000_000 + b" Tail.")
    (found,) = (await gather(files, str(workspace), max_characters=1000)).files
    assert found.path == "CLAUDE.md", "a file of holes is no text"
    assert found.text.startswith("Head. x") and found.text.endswith("x Tail.") and len(found.text) < 1000


async def test_many_and_evil_names_stay_few_and_plain(files: SandboxAdapter, workspace: Path) -> None:
    for number in range(300):
        (workspace / f"file{number:03}").touch()
    (workspace / "a\nb").touch()
    Path(os.fsdecode(bytes(workspace) + b"/bad\xff")).touch()
    found = await gather(files, str(workspace), max_characters=1000)
    assert found.snapshot is not None
    assert found.snapshot.entries[0] == "a?b" and len(found.snapshot.entries) == 60 and found.snapshot.omitted == 242
    assert all(name.isprintable() for name in found.snapshot.entries)


async def test_a_directory_speaks_with_the_first_result_from_it(files: SandboxAdapter, workspace: Path) -> None:
    (workspace / "api").mkdir()
    (workspace / "api/AGENTS.md").write_text("Never break v1.")
    box = Toolbox(tools_of(("file",)), files)
    call = box.check(ParsedCall("c1", "read_file", "{}", {"path": "api/x"}), "c1")
    hints = DirectoryHints(files, str(workspace), seconds=10)
    result = ToolResultPart(call_id="c1", name="read_file", text="x")
    transcript = Transcript("c")
    (first,) = await hints.add(transcript, [call], [result])
    assert first.text.startswith("x\n\n[Project instructions from api/AGENTS.md]\nNever break v1.")
    assert await hints.add(transcript, [call], [result]) == [result]


async def test_a_sandbox_that_is_not_there_costs_the_time_limit_at_most(tmp_path: Path) -> None:
    started = time.monotonic()
    found = await gather(SandboxAdapter(str(tmp_path / "none.sock")), "/workspace", max_characters=1000, seconds=0.2)
    assert found.snapshot is None and found.files == () and time.monotonic() - started < 3
