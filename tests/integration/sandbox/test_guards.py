"""A sandbox survives what its commands do to it, and the model is told what happened."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from hermes_agent.sandbox import Busy, ExecRequest, Exit, NotFound, Output, Sandbox, SandboxGone

MARK = "HERMES_TEST_MARK"


def marked(value: str) -> list[int]:
    """Living processes started with the mark in their environment."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and f"{MARK}={value}\0".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def request(command: str, value: str, **more: object) -> ExecRequest:
    return ExecRequest.model_validate({"command": command, "env": {MARK: value}, "timeout_seconds": 30, **more})


async def eventually_none(value: str) -> None:
    async with asyncio.timeout(10):
        while marked(value):
            await asyncio.sleep(0.01)


async def test_a_memory_eater_is_killed_and_named(start, tmp_path) -> None:
    _, sandbox = await start("--memory-limit-bytes", str(200 << 20))
    eater = "python3 -c 'import time\nx=[]\nwhile 1: x.append(bytearray(b\"x\"*(4<<20))); time.sleep(0.01)'"
    quiet = asyncio.create_task(sandbox.run(request("sleep 1.5; echo fine", str(tmp_path))))
    result = await sandbox.run(request(f"{eater} & {eater}; wait", str(tmp_path)))
    assert (result.exit.killed, result.exit.signal) == ("memory", signal.SIGKILL)
    assert (await quiet).text() == "fine\n"
    assert marked(str(tmp_path)) == []


async def test_a_fork_bomb_is_ended(start, tmp_path) -> None:
    _, sandbox = await start("--max-processes", "40")
    bomb = "ulimit -u 400 2>/dev/null; f() { sleep 20 & if [ $1 -gt 0 ]; then f $(($1-1)) & f $(($1-1)) & fi; wait; }; f 7"
    result = await sandbox.run(request(bomb, str(tmp_path)))
    assert result.exit.killed == "processes"
    assert marked(str(tmp_path)) == []
    assert (await sandbox.run(request("echo alive", ""))).text() == "alive\n"


async def test_a_runaway_writer_is_stopped_and_others_go_on(start, tmp_path) -> None:
    daemon, sandbox = await start("--max-workspace-bytes", str(20 << 20))
    quiet = asyncio.create_task(sandbox.run(request("sleep 2; echo fine", str(tmp_path))))
    writer = "i=0; while [ $i -lt 400 ]; do head -c 1000000 /dev/zero > f$i; i=$((i+1)); done"
    result = await sandbox.run(request(writer, str(tmp_path)))
    assert result.exit.killed == "disk"
    assert (await quiet).text() == "fine\n"
    assert (await sandbox.run(request("rm -f f*; echo freed", ""))).text() == "freed\n"
    assert sum(path.stat().st_size for path in daemon.workspace.iterdir()) == 0


async def test_no_single_file_can_pass_the_quota(start, tmp_path) -> None:
    daemon, sandbox = await start("--max-workspace-bytes", str(5 << 20))
    await sandbox.run(request("head -c 50000000 /dev/zero > big", str(tmp_path)))
    assert (daemon.workspace / "big").stat().st_size <= 5 << 20


@pytest.mark.parametrize(
    "command",
    [
        "sleep 300 & echo done",
        "setsid sleep 300 & echo done",
        "(setsid sh -c 'sleep 300 & exec sleep 300' &) ; echo done",
        "nohup setsid env -i sleep 300 >/dev/null 2>&1 & echo done",
        'python3 -c \'import os\nif os.fork()==0:\n os.setsid()\n if os.fork()==0: os.execvp("sleep",["sleep","301"])'
        "\n os._exit(0)'; echo done",
    ],
)
async def test_nothing_is_left_after_a_foreground_command(start, tmp_path, command: str) -> None:
    daemon, sandbox = await start()
    result = await sandbox.run(request(command, str(tmp_path)))
    assert result.stdout == b"done\n"
    assert result.exit.duration_ms < 5000
    assert marked(str(tmp_path)) == []
    assert Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split() == []


async def test_a_client_that_dies_leaves_nothing_running(start, tmp_path) -> None:
    daemon, sandbox = await start()
    other = await Sandbox.connect(daemon.socket)
    await other.processes.start(request("setsid sleep 300 & sleep 300", str(tmp_path)))
    running = asyncio.create_task(other.run(request("trap '' TERM HUP; sleep 300 & sleep 300", str(tmp_path))))
    async with asyncio.timeout(10):
        while len(marked(str(tmp_path))) < 5:
            await asyncio.sleep(0.01)
    await other.close()
    with pytest.raises(SandboxGone):
        await running
    await eventually_none(str(tmp_path))
    assert (await sandbox.run(request("echo alive", ""))).text() == "alive\n"


async def test_leaving_a_stream_kills_the_command(sandbox, tmp_path) -> None:
    async with await sandbox.exec(request("echo on; sleep 300", str(tmp_path))) as stream:
        async for item in stream:
            assert isinstance(item, Output)
            break
    await eventually_none(str(tmp_path))


async def test_cancelling_a_run_kills_the_command(sandbox, tmp_path) -> None:
    task = asyncio.create_task(sandbox.run(request("sleep 300", str(tmp_path))))
    async with asyncio.timeout(10):
        while not marked(str(tmp_path)):
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually_none(str(tmp_path))


async def test_a_flood_that_nobody_reads_costs_no_memory(start, tmp_path) -> None:
    daemon, sandbox = await start()
    before = daemon.resident_bytes()
    async with await sandbox.exec(request("yes", str(tmp_path))):
        for _ in range(50):
            await sandbox.status()
        assert daemon.resident_bytes() - before < 16 << 20
    result = await sandbox.run(request("head -c 300000000 /dev/zero", str(tmp_path)))
    assert result.exit.dropped[0] == 300_000_000 - 50_000
    assert daemon.resident_bytes() - before < 16 << 20


async def test_a_restart_of_the_sandbox_is_told_and_survived(start) -> None:
    daemon, sandbox = await start()
    await sandbox.write_file("kept", b"1")
    running = asyncio.create_task(sandbox.run(ExecRequest(command="echo $PPID > pid; sleep 300")))
    async with asyncio.timeout(10):
        while not (daemon.workspace / "pid").exists():
            await asyncio.sleep(0.01)
    await daemon.stop(signal.SIGKILL)
    with pytest.raises(SandboxGone, match="restarted"):
        await running
    await daemon.start()
    assert await sandbox.read_file("kept") == b"1"


async def test_an_orderly_stop_kills_what_runs(start, tmp_path) -> None:
    daemon, sandbox = await start()
    await sandbox.processes.start(request("trap '' TERM; setsid sleep 300 & sleep 300", str(tmp_path)))
    assert await daemon.stop() == 0
    await eventually_none(str(tmp_path))


async def test_another_user_is_not_let_in(start) -> None:
    daemon, _ = await start("--peer-uid", str(os.getuid()))
    if os.getuid() != 0:
        pytest.skip("only root can become somebody else")
    Path(daemon.socket).chmod(0o666)
    code = (
        f"import socket; s=socket.socket(socket.AF_UNIX); s.connect({daemon.socket!r}); s.settimeout(5); print(s.recv(10))"
    )
    folder = Path(daemon.socket)
    while folder != Path("/tmp") and folder != folder.parent:
        folder = folder.parent
        if folder.stat().st_uid == 0:
            folder.chmod(folder.stat().st_mode | 0o055)
    process = await asyncio.create_subprocess_exec(
        "setpriv", "--reuid", "12345", "--clear-groups", "/usr/bin/python3", "-c", code, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert out == b"b''\n"


async def test_the_kernel_would_choose_a_command_before_the_daemon(sandbox) -> None:
    assert (await sandbox.run(ExecRequest(command="cat /proc/self/oom_score_adj"))).text() == "1000\n"


async def test_background_processes_from_start_to_end(sandbox, tmp_path) -> None:
    info = await sandbox.processes.start(
        request("echo ready; while read x; do echo got $x; done", str(tmp_path), stdin=True)
    )
    assert info.running
    await sandbox.processes.write(info.id, b"one\ntwo\n")
    async with asyncio.timeout(10):
        while b"two" not in (log := await sandbox.processes.log(info.id)).data:
            await asyncio.sleep(0.01)
    assert log.data == b"ready\ngot one\ngot two\n"
    assert (await sandbox.processes.log(info.id, offset=6, limit=7)).data == b"got one"
    assert [entry.id for entry in await sandbox.processes.list()] == [info.id]
    await sandbox.processes.close(info.id)
    ended = await sandbox.processes.wait(info.id, 10)
    assert (ended.running, ended.code) == (False, 0)
    with pytest.raises(NotFound):
        await sandbox.processes.poll("p999")


async def test_killing_a_stubborn_background_process_takes_its_tree(sandbox, tmp_path) -> None:
    info = await sandbox.processes.start(
        request("trap '' TERM; setsid sleep 300 & echo on; while :; do sleep 300; done", str(tmp_path))
    )
    assert (await sandbox.processes.wait(info.id, 0.05)).running
    ended = await sandbox.processes.kill(info.id, timeout_seconds=20)
    assert (ended.running, ended.signal) == (False, signal.SIGKILL)
    await eventually_none(str(tmp_path))


async def test_a_rolling_log_keeps_the_end(sandbox) -> None:
    info = await sandbox.processes.start(ExecRequest(command="seq 1 100000"))
    await sandbox.processes.wait(info.id, 10)
    log = await sandbox.processes.log(info.id, offset=0, limit=200_000)
    assert (log.info.start, log.info.end) == (588_895 - 200_000, 588_895)
    assert log.data.endswith(b"\n100000\n")


async def test_the_registry_is_bounded(sandbox) -> None:
    for _ in range(64):
        await sandbox.processes.start(ExecRequest(argv=("sleep", "300")))
    with pytest.raises(Busy, match="64 background"):
        await sandbox.processes.start(ExecRequest(argv=("sleep", "300")))
    first = (await sandbox.processes.list())[0]
    await sandbox.processes.kill(first.id, signal=9)
    assert (await sandbox.processes.start(ExecRequest(argv=("sleep", "300")))).running


async def test_a_limited_run_reports_an_exit(sandbox) -> None:
    async with await sandbox.exec(ExecRequest(command="kill -9 $$")) as stream:
        items = [item async for item in stream]
    assert isinstance(items[-1], Exit)
    assert (items[-1].code, items[-1].signal, items[-1].killed) == (None, 9, "")
