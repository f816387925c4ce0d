"""The tools against the real sandboxd: what the model reads is what happened."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes_agent.model.hygiene import ParsedCall
from hermes_agent.stop import StopReason, StopSignal
from hermes_agent.tools.executor import Toolbox
from hermes_agent.tools.registry import tools_of
from hermes_agent.tools.sandbox_adapter import SandboxAdapter
from hermes_contracts.conversation import ToolCallPart, ToolResultPart

ROOT = Path(__file__).parents[3]


class Tools:
    def __init__(self, socket: Path, workspace: Path) -> None:
        self.sandbox = SandboxAdapter(str(socket))
        self.box = Toolbox(tools_of(("terminal", "file")), self.sandbox)
        self.workspace = workspace
        self.events: list[tuple[str, str]] = []
        self.count = 0

    async def many(self, *calls: tuple[str, dict[str, object]], stop: StopSignal | None = None) -> list[ToolResultPart]:
        def note(kind: str, part: ToolCallPart) -> None:
            self.events.append((kind, part.name))

        checked = []
        for name, arguments in calls:
            self.count += 1
            call_id = f"c{self.count}"
            checked.append(self.box.check(ParsedCall(call_id, name, json.dumps(arguments), arguments), call_id))
        return await self.box.run(checked, stop or StopSignal(), note)

    async def one(self, tool: str, **arguments: object) -> ToolResultPart:
        return (await self.many((tool, arguments)))[0]


@pytest.fixture
async def tools(tmp_path: Path) -> AsyncIterator[Tools]:
    workspace, socket = tmp_path / "workspace", tmp_path / "exec.sock"
    workspace.mkdir()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", str(ROOT / "sandbox_image"),
        "--socket", str(socket), "--workspace", str(workspace),
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    tools = Tools(socket, workspace)
    yield tools
    await tools.sandbox.close()
    if process.returncode is None:
        process.terminate()
    await process.wait()


async def test_commands_say_output_error_output_exit_code_and_keep_the_directory(tools: Tools) -> None:
    result = await tools.one("terminal", command="mkdir sub && cd sub && echo out && echo err >&2 && exit 3")
    assert result.text.startswith("out\n[stderr]\nerr\n[exit code 3, ") and not result.is_error
    assert (await tools.one("terminal", command="pwd")).text.split("\n")[0] == str(tools.workspace / "sub")
    assert (await tools.one("terminal", command="pwd", workdir="/tmp")).text.startswith("/tmp\n")
    assert "no output" in (await tools.one("terminal", command="true")).text


async def test_over_long_output_is_cut_in_the_middle_and_spilled_whole(tools: Tools) -> None:
    result = await tools.one("terminal", command="seq 1 60000")
    assert len(result.text) < 52_000 and result.text.startswith("1\n2\n") and "60000\n[exit code 0" in result.text
    spilled = tools.workspace / ".hermes" / "spill" / f"{result.call_id}.txt"
    assert f".hermes/spill/{result.call_id}.txt" in result.text and spilled.read_text().split() == [
        str(n) for n in range(1, 60_001)
    ]


async def test_a_flood_and_a_time_out_are_told(tools: Tools) -> None:
    result = await tools.one("terminal", command="yes", timeout=1)
    assert "killed: it ran longer than 1 s" in result.text and "bytes of output were not kept" in result.text
    assert len(result.text) < 60_000


async def test_stop_kills_a_command_and_what_it_started(tools: Tools) -> None:
    stop = StopSignal()
    marker = tools.workspace / "alive"
    running = asyncio.ensure_future(
        tools.many(
            ("terminal", {"command": "sleep 3.14159 && touch alive"}), ("terminal", {"command": "touch never"}), stop=stop
        )
    )
    while not tools.events:
        await asyncio.sleep(0.01)
    started = time.monotonic()
    stop.set(StopReason.USER)
    first, second = await running
    assert time.monotonic() - started < 1
    assert "Stopped by the user" in first.text and second.text.startswith("Not run")
    left = await tools.one("terminal", command="ps -ef | grep -c '[s]leep 3.14159' || true")
    assert left.text.startswith("0") and not marker.exists() and not (tools.workspace / "never").exists()


async def test_background_processes_are_watched_fed_and_ended(tools: Tools) -> None:
    started = await tools.one("terminal", command="while read line; do echo got $line; done; echo bye", background=True)
    session = started.text.rsplit(" ", 1)[1]
    await tools.one("process_manage", action="submit", session_id=session, data="hello")
    deadline = time.monotonic() + 5
    while "got hello" not in (polled := await tools.one("process_manage", action="poll", session_id=session)).text:
        assert time.monotonic() < deadline, polled.text
    await tools.one("process_manage", action="close", session_id=session)
    waited = await tools.one("process_manage", action="wait", session_id=session, timeout=5)
    assert "exit 0" in waited.text and "bye" in waited.text
    assert session in (await tools.one("process_manage", action="list")).text
    other = (await tools.one("terminal", command="sleep 60", background=True)).text.rsplit(" ", 1)[1]
    assert "running" not in (await tools.one("process_manage", action="kill", session_id=other)).text
    unknown = await tools.one("process_manage", action="poll", session_id="p-none")
    assert unknown.is_error


async def test_files_are_written_read_by_line_patched_and_found(tools: Tools) -> None:
    await tools.one("write_file", path="pkg/a.py", content="def f():\n    return 1\n\n\ndef g():\n    return 2\n")
    read = await tools.one("read_file", path="pkg/a.py", offset=5, limit=1)
    assert read.text == "     5|def g():\n[more: offset 6]"
    patched = await tools.one("patch", path="pkg/a.py", old_string="def g():\n  return 2", new_string="def g():\n  return 3")
    assert "+    return 3" in patched.text and "indentation ignored" in patched.text
    found = await tools.one("search_files", pattern="return \\d")
    assert found.text == "pkg/a.py:2:    return 1\npkg/a.py:6:    return 3"
    assert (await tools.one("search_files", pattern="*.py", target="files")).text == "pkg/a.py"
    assert (await tools.one("search_files", pattern="return", output_mode="count")).text == "pkg/a.py:2"
    assert (await tools.one("search_files", pattern="nowhere")).text == "No results."


async def test_refusals_are_sentences(tools: Tools) -> None:
    (tools.workspace / "binary").write_bytes(b"\x7fELF\0\0")
    for path, words in (("binary", "binary"), ("nothing", "no such file"), (".", "directory"), ("/dev/zero", "devices")):
        result = await tools.one("read_file", path=path)
        assert result.is_error and words in result.text
    outside = await tools.one("write_file", path="/etc/hosts.new", content="x")
    assert outside.is_error and not Path("/etc/hosts.new").exists()


async def test_a_patch_over_several_files_is_all_or_nothing(tools: Tools) -> None:
    (tools.workspace / "one.txt").write_text("alpha\nbeta\n")
    bad = "*** Begin Patch\n*** Add File: new.txt\n+fresh\n*** Update File: one.txt\n@@\n-gamma\n+delta\n*** End Patch"
    refused = await tools.one("patch", mode="patch", patch=bad)
    assert refused.is_error and "nothing was changed" in refused.text and not (tools.workspace / "new.txt").exists()
    good = bad.replace("-gamma", "-beta")
    assert "+delta" in (await tools.one("patch", mode="patch", patch=good)).text
    assert (tools.workspace / "one.txt").read_text() == "alpha\ndelta\n"
    assert (tools.workspace / "new.txt").read_text() == "fresh\n"


async def test_a_sandbox_that_is_not_there_is_an_error_for_the_model_and_not_for_the_turn(tmp_path: Path) -> None:
    tools = Tools(tmp_path / "none.sock", tmp_path)
    tools.sandbox._sandbox._connect_seconds = 0.2
    result = await tools.one("terminal", command="true")
    assert result.is_error and result.text
