"""A model runs commands: output, input, terminals, directories, time."""

import asyncio
import os
import signal

import pytest

from hermes_agent.sandbox import ExecRequest, Exit, Fd, NotFound, Output, Sandbox, TerminalSize, TooLarge


async def test_outputs_are_kept_apart_and_the_code_is_told(sandbox: Sandbox) -> None:
    result = await sandbox.run(ExecRequest(command="echo out; echo err >&2; exit 3"))
    assert (result.stdout, result.stderr, result.exit.code) == (b"out\n", b"err\n", 3)
    assert not result.ok


async def test_argv_runs_without_a_shell(sandbox: Sandbox) -> None:
    assert (await sandbox.run(ExecRequest(argv=("printf", "%s|", "a b", "$HOME")))).stdout == b"a b|$HOME|"


async def test_an_unknown_program_is_not_found(sandbox: Sandbox) -> None:
    with pytest.raises(NotFound, match="no-such-program"):
        await sandbox.run(ExecRequest(argv=("no-such-program",)))


async def test_a_command_too_long_for_the_kernel_is_refused_with_advice(sandbox: Sandbox) -> None:
    with pytest.raises(TooLarge, match="write it to a file"):
        await sandbox.run(ExecRequest(command="#" * 130_000))


async def test_every_byte_passes_through_input_and_output_unchanged(sandbox: Sandbox) -> None:
    data = bytes(range(256)) * 4096 + os.urandom(100_001)
    result = await sandbox.run(ExecRequest(argv=("cat",)), stdin=data, max_output_bytes=2_000_000)
    assert result.stdout == data


async def test_a_program_that_does_not_read_its_input_still_ends(sandbox: Sandbox) -> None:
    assert (await sandbox.run(ExecRequest(command="exit 0"), stdin=b"x" * 3_000_000)).ok


async def test_the_environment_is_the_images_with_the_requests_over_it(sandbox: Sandbox) -> None:
    request = ExecRequest(command='echo "$A|$HOME|${TMPDIR-none}"', env={"A": "1 2", "TMPDIR": None})
    assert (await sandbox.run(request)).text() == f"1 2|{await sandbox.workspace()}|none\n"


async def test_a_shell_session_keeps_its_directory_and_others_do_not(sandbox: Sandbox) -> None:
    first = await sandbox.run(ExecRequest(command="mkdir -p a/b && cd a/b && exit 7", shell="one"))
    assert first.exit.code == 7
    assert first.exit.cwd == f"{await sandbox.workspace()}/a/b"
    assert (await sandbox.run(ExecRequest(command="pwd", shell="one"))).text() == f"{first.exit.cwd}\n"
    assert (await sandbox.run(ExecRequest(command="pwd", shell="two"))).text() == f"{await sandbox.workspace()}\n"


async def test_a_shell_whose_directory_was_removed_starts_in_the_workspace(sandbox: Sandbox) -> None:
    await sandbox.run(ExecRequest(command="mkdir gone && cd gone && rmdir ../gone", shell="s"))
    assert (await sandbox.run(ExecRequest(command="pwd", shell="s"))).text() == f"{await sandbox.workspace()}\n"


async def test_a_timeout_ends_a_command_that_ignores_the_polite_signal(sandbox: Sandbox) -> None:
    result = await sandbox.run(
        ExecRequest(command="trap '' TERM; echo on; while :; do read -t 1 x < /dev/zero; done", timeout_seconds=0.2)
    )
    assert result.exit.killed == "timeout"
    assert result.stdout == b"on\n"
    assert 200 <= result.exit.duration_ms < 10_000


async def test_output_beyond_the_limit_keeps_head_and_tail_and_counts_the_rest(sandbox: Sandbox) -> None:
    result = await sandbox.run(ExecRequest(command="seq 1 200000"), max_output_bytes=1000)
    whole = b"".join(b"%d\n" % n for n in range(1, 200001))
    assert result.stdout == whole[:400] + whole[-600:]
    assert result.exit.dropped == (len(whole) - 1000, 0)
    assert f"[{len(whole) - 1000} bytes left out]" in result.text()


async def test_a_stream_gives_output_while_the_command_runs_and_takes_answers(sandbox: Sandbox) -> None:
    async with await sandbox.exec(ExecRequest(command="echo name?; read x; echo hello $x", stdin=True)) as stream:
        seen = b""
        async for item in stream:
            if isinstance(item, Output):
                seen += item.data
                if seen == b"name?\n":
                    await stream.send(b"you\n")
    assert seen == b"name?\nhello you\n"
    assert stream.exit
    assert stream.exit.code == 0


async def test_a_signal_reaches_the_whole_group(sandbox: Sandbox) -> None:
    command = "(trap 'echo child' INT; echo ready; sleep 30 & wait) & trap 'wait; echo parent; exit 0' INT; wait"
    async with await sandbox.exec(ExecRequest(command=command)) as stream:
        seen = b""
        async for item in stream:
            if isinstance(item, Output):
                seen += item.data
                if item.data == b"ready\n":
                    stream.signal(signal.SIGINT)
    assert seen.count(b"child") == 1
    assert seen.count(b"parent") == 1


async def test_a_terminal_is_one_and_can_be_resized(sandbox: Sandbox) -> None:
    request = ExecRequest(command="test -t 0 && stty size; read x; stty size", pty=TerminalSize(rows=30, columns=100))
    async with await sandbox.exec(request) as stream:
        seen = b""
        async for item in stream:
            if isinstance(item, Output):
                assert item.fd is Fd.STDOUT
                seen += item.data
                if seen == b"30 100\r\n":
                    stream.resize(TerminalSize(rows=40, columns=120))
                    await stream.send(b"\n")
    assert seen.endswith(b"40 120\r\n")
    assert stream.exit
    assert stream.exit.code == 0


async def test_end_of_input_on_a_terminal_ends_the_reader(sandbox: Sandbox) -> None:
    for _ in range(20):  # closing the terminal too early kills the program in about half of the cases
        async with await sandbox.exec(ExecRequest(argv=("cat",), pty=TerminalSize())) as stream:
            await stream.send(b"line\n")
            stream.close_input()
            items = [item async for item in stream]
        assert isinstance(items[-1], Exit)
        assert items[-1].code == 0


async def test_sixty_four_commands_run_side_by_side(sandbox: Sandbox) -> None:
    async def one(number: int) -> bytes:
        return (await sandbox.run(ExecRequest(command=f"read x; echo {number} $x"), stdin=b"in\n")).stdout

    async with asyncio.TaskGroup() as tasks:
        results = [tasks.create_task(one(number)) for number in range(64)]
    assert [task.result() for task in results] == [b"%d in\n" % number for number in range(64)]


async def test_a_slow_reader_holds_up_its_own_command_only(sandbox: Sandbox) -> None:
    async with await sandbox.exec(ExecRequest(command="head -c 20000000 /dev/zero")) as slow:
        for _ in range(20):
            assert (await sandbox.run(ExecRequest(command="echo quick"))).stdout == b"quick\n"
        size = 0
        async for item in slow:
            size += len(item.data) if isinstance(item, Output) else 0
    assert size == 20_000_000


async def test_output_of_a_command_that_has_ended_waits_for_its_reader(sandbox: Sandbox) -> None:
    async with await sandbox.exec(ExecRequest(command="head -c 1900000 /dev/zero")) as slow:
        await sandbox.run(ExecRequest(command="sleep 1"))
        size = 0
        async for item in slow:
            size += len(item.data) if isinstance(item, Output) else 0
    assert size == 1_900_000
