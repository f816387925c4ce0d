"""Somebody converses: in a pipe, over a line that breaks, and at a keyboard."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="session")

CTRL_C, CTRL_D = "\x03", "\x04"


def _line(message: str) -> str:
    """A message of several lines, at a keyboard: Alt-Enter between them, Enter at the end."""
    return message.replace("\n", "\x1b\r") + "\r"


async def test_lines_of_a_pipe_are_messages_one_after_the_other(hermes: Any) -> None:
    done = await hermes.run("chat", stdin="!echo one > file\n!cat file; echo two\n/usage\n/nonsense\n")
    assert done.code == 1, "a line was no command"
    assert "one\ntwo" in done.out
    assert "tokens in" in done.err
    assert "no command /nonsense" in done.err


async def test_a_cut_stream_goes_on_where_it_was(hermes: Any, cutting: Any, script: Any) -> None:
    steps = [{"calls": [{"name": "terminal", "arguments": {"command": f"echo {n}"}}]} for n in range(3)]
    message = script(*steps, {"say": "piece ", "repeat": 40, "pause_ms": 20})
    async with cutting(b"event: tool.started") as (url, cutter):
        done = await hermes.run("chat", message, env={"HERMES_URL": url})
    assert cutter.cuts == 1
    assert (done.code, done.out.split()) == (0, ["piece"] * 40), done.err
    assert done.err.count("[terminal]") == 3, "each tool is told once"
    assert any(b"last-event-id: " in head.lower() for head in cutter.asked)


async def test_a_cut_while_the_message_is_sent_sends_it_once(hermes: Any, cutting: Any, script: Any) -> None:
    async with cutting(b'"state":"waiting"') as (url, cutter):
        done = await hermes.run("send", "-s", "once", script({"say": "once"}), env={"HERMES_URL": url})
    assert (done.code, done.out, cutter.cuts) == (0, "once\n", 1), done.err
    assert (await hermes.run("sessions", "show", "once", "--json")).json()["turns"] == 1


async def test_a_gateway_that_restarts_is_waited_for(hermes: Any, script: Any) -> None:
    message = script({"say": "slow ", "repeat": 60, "pause_ms": 50})
    async with hermes.started("chat", message, "-s", "restart") as process:
        process.stdin.close()
        await process.stdout.readexactly(10)
        await hermes.stack.restart("gateway")
        rest = (await process.stdout.read()).decode()
        assert await process.wait() == 0
    assert rest.rstrip().endswith(("slow slow " * 20).strip())


async def test_at_a_keyboard(hermes: Any, script: Any) -> None:
    async with hermes.keyboard("chat", "--title", "a tour") as board:
        await board.until("a tour")
        board.type(_line("hello there"))
        await board.until("› hello there")
        await board.until("tokens in")
        board.type(_line("!echo from-the-$((40+2))"))
        await board.until("▸ terminal")
        await board.until("from-the-42")
        await board.until("tokens in")
        board.type("/usage\r")
        await board.until("model calls")
        board.type("/stat\r")
        await board.until("Profile dev/default")
        board.type(CTRL_D)
        assert await board.ended() == 0
        await board.until("go on with: hermes chat --session s")


async def test_ctrl_c_stops_the_turn_and_twice_leaves(hermes: Any, script: Any) -> None:
    async with hermes.keyboard("chat") as board:
        await board.until("/help")
        board.type("!sleep 60\r")
        await board.until("▸ terminal")
        board.type(CTRL_C)
        await board.until("Stopping the turn")
        await board.until("stopped")
        board.type("half a line" + CTRL_C)
        board.type("still here\r")
        await board.until("› still here")
        await board.until("tokens in")
        board.type(CTRL_C)
        await board.until("Ctrl-C again")
        board.type(CTRL_C)
        assert await board.ended() == 0


async def test_leaving_leaves_the_turn_running(hermes: Any, script: Any) -> None:
    async with hermes.keyboard("chat", "-s", "left", "!sleep 3; echo finished anyway") as board:
        await board.until("▸ terminal")
        board.type("/quit\r")
        assert await board.ended() == 0
    done = await hermes.run("send", "-s", "left", script({"say": "next"}))
    assert done.out == "next\n"
    assert "finished anyway" in (await hermes.run("sessions", "transcript", "left")).out


async def test_a_running_turn_can_be_steered(hermes: Any, script: Any) -> None:
    steps = [{"calls": [{"name": "terminal", "arguments": {"command": "sleep 2"}}]}, {"say": "as it was"}]
    async with hermes.keyboard("chat", "-s", "steered") as board:
        await board.until("/help")
        board.type(_line(script(*steps)))
        await board.until("▸ terminal")
        board.type("/steer use the staging database\r")
        # The scripted model answers what was said last, and that is the word that came into its turn.
        await board.until("You said: “[steered]")
        board.type(CTRL_D)
        assert await board.ended() == 0
    assert "use the staging database" in (await hermes.run("sessions", "transcript", "steered")).out


async def test_what_the_model_writes_cannot_move_the_cursor(hermes: Any, script: Any) -> None:
    async with hermes.keyboard("chat") as board:
        await board.until("/help")
        board.type(_line(script({"say": "before \x1b]0;owned\x07\x1b[2Jafter"})))
        await board.until("tokens in")
        assert b"owned\x07" not in bytes(board._raw)
        assert b"\x1b[2Jafter" not in bytes(board._raw)
        board.type(CTRL_D)
        assert await board.ended() == 0


async def test_a_conversation_is_taken_back_asked_again_and_named(hermes: Any) -> None:
    lines = ("!echo one >> file; cat file", "/retry", "/title A tour", "/title", "/model", "/profile", "/undo", "/resume")
    done = await hermes.run("chat", "-s", "undone", stdin="\n".join(lines) + "\n")
    assert done.code == 0, done.err
    assert "one\none" in done.out, "the message was done twice"
    assert done.err.count("A tour") == 3, done.err
    assert "scripted-1 answers here. There is no other." in done.err
    assert "You talk to default. There is no other." in done.err
    assert "Taken back, with my answer: “!echo one >> file; cat file”." in done.err
    refused = await hermes.run("chat", "-s", "undone", stdin="/undo\n/model gpt-9\n/profile nobody\n/resume 1\n")
    assert refused.code == 1
    assert "Nothing was said in this conversation" in refused.err
    assert "There is no model `gpt-9` to choose here" in refused.err
    assert "no Profile 'nobody'" in refused.err and "no session with the number 1" in refused.err
    read = await hermes.run("sessions", "transcript", "undone")
    assert read.out.count("(taken back) › !echo one") == 2
