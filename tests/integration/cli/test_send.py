"""Scripts send messages and look after sessions: output, JSON shapes, exit codes."""

from __future__ import annotations

import base64
import json
import signal
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="session")

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


def _runs(command: str, say: str, script: Any) -> str:
    return str(script({"calls": [{"name": "terminal", "arguments": {"command": command}}]}, {"say": say}))


async def test_the_answer_alone_goes_to_stdout(hermes: Any, script: Any) -> None:
    done = await hermes.run("send", "-s", "answer", _runs("echo secret-output", "It **ran**.", script))
    assert (done.code, done.out) == (0, "It **ran**.\n"), done.err
    assert "[terminal]" in done.err


async def test_a_pipe_is_a_message_and_json_has_the_turn(hermes: Any, script: Any) -> None:
    done = await hermes.run("send", "--json", stdin=script({"say": "piped"}))
    turn = done.json()
    assert done.code == 0, done.err
    assert (turn["state"], turn["reply"], turn["usage"]["model_calls"]) == ("done", "piped", 1)
    assert {"session", "message_id", "turn", "reason", "usage"} <= turn.keys()


async def test_a_session_goes_on_by_a_name_of_ones_own(hermes: Any) -> None:
    await hermes.run("send", "-s", "named", "!echo 42 > answer")
    done = await hermes.run("send", "-s", "named", "!cat answer")
    assert "42" in done.out
    found = (await hermes.run("sessions", "show", "named", "--json")).json()
    assert (found["client_id"], found["turns"], found["profile"]) == ("named", 2, "default")


async def test_a_picture_goes_along(hermes: Any, tmp_path: Path, script: Any) -> None:
    (tmp_path / "dot.png").write_bytes(PIXEL)
    picture = str(tmp_path / "dot.png")
    done = await hermes.run("send", "-s", "picture", "--image", picture, script({"say": "a dot"}))
    assert (done.code, done.out) == (0, "a dot\n"), done.err
    said = [json.loads(line) for line in (await hermes.run("sessions", "transcript", "picture", "--json")).out.splitlines()]
    assert [part["type"] for part in said[0]["parts"]].count("image") == 1
    (tmp_path / "dot.png").write_text("no picture")
    assert (await hermes.run("send", "--image", picture, "look")).code == 2


async def test_a_turn_that_fails_is_exit_code_1(hermes: Any, script: Any) -> None:
    done = await hermes.run("send", script({"error": "auth"}))
    assert done.code == 1
    assert done.out.strip(), "the sentence for the person"


async def test_no_wait_returns_at_once_and_the_answer_can_be_read_later(hermes: Any, script: Any) -> None:
    done = await hermes.run("send", "-s", "later", "--no-wait", "--json", script({"say": "in a while"}))
    assert done.json()["state"] == "waiting"
    assert (await hermes.run("send", "-s", "later", script({"say": "second"}))).out == "second\n"
    read = await hermes.run("sessions", "transcript", "later")
    assert "in a while" in read.out


async def test_sessions_are_listed_read_and_deleted(hermes: Any, script: Any) -> None:
    await hermes.run("send", "-s", "gone", _runs("true", "bye", script))
    plain = await hermes.run("sessions", "list")
    head, *rows = plain.out.splitlines()
    assert head.split("\t")[:3] == ["ID", "PROFILE", "CHANNEL"]
    assert any(row.endswith("gone") for row in rows)
    sid = next(s["id"] for s in (await hermes.run("sessions", "list", "--json")).json() if s["client_id"] == "gone")
    assert (await hermes.run("sessions", "show", sid[:8])).out.startswith("id")
    assert "▸ terminal" in (await hermes.run("sessions", "transcript", sid)).out
    refused = await hermes.run("sessions", "delete", "gone")
    assert refused.code == 2, "nobody is there to be asked"
    assert (await hermes.run("sessions", "delete", "gone", "--yes")).code == 0
    assert (await hermes.run("sessions", "show", sid)).code == 4


async def test_ctrl_c_stops_the_turn_of_a_pipe(hermes: Any, script: Any) -> None:
    long = script({"say": "word ", "repeat": 2000, "pause_ms": 50})
    async with hermes.started("chat", "-s", "stopped") as process:
        process.stdin.write(long.replace("\n", " ").encode() + b"\n!sleep 60\n")
        await process.stdin.drain()
        await process.stderr.readuntil(b"[terminal]")
        process.send_signal(signal.SIGINT)
        process.stdin.close()
        said = (await process.stderr.read()).decode()
        assert await process.wait() == 1
    assert "Stopping the turn" in said
    last = (await hermes.run("sessions", "show", "stopped", "--json")).json()
    assert last["running_turns"] == 0


@pytest.mark.parametrize(
    ("env", "code", "words"),
    [
        ({"HERMES_API_KEY": "not-the-key"}, 4, "does not know this key"),
        ({"HERMES_API_KEY": ""}, 2, "no key"),
        ({"HERMES_API_KEY": "two words"}, 2, "one line"),
        ({"HERMES_URL": "http://127.0.0.1:9"}, 3, "cannot reach http://127.0.0.1:9"),
        ({"HERMES_URL": "gateway"}, 2, "begins with http"),
        ({"HERMES_URL": "", "HERMES_CONTEXT": "nowhere"}, 2, "no context 'nowhere'"),
    ],
)
async def test_an_error_is_one_line_that_says_what_to_do(hermes: Any, env: dict[str, str], code: int, words: str) -> None:
    for command in (("sessions", "list"), ("send", "hello"), ("chat", "hello")):
        done = await hermes.run(*command, env=env)
        assert (done.code, done.out, len(done.err.splitlines())) == (code, "", 1), done
        assert words in done.err
        assert not [secret for secret in (env.get("HERMES_API_KEY"),) if secret and secret in done.err]


async def test_a_context_of_the_configuration_file_is_enough(hermes: Any, tmp_path: Path, script: Any) -> None:
    (tmp_path / "key").write_text(hermes.stack.api_key + "\n")
    folder = tmp_path / ".config" / "hermes"
    folder.mkdir(parents=True)
    context = {"url": hermes.stack.api_url, "keyFile": str(tmp_path / "key"), "profile": "default"}
    (folder / "config.yaml").write_text(json.dumps({"current": "here", "contexts": {"here": context}}))
    nothing = {"HERMES_URL": "", "HERMES_API_KEY": ""}
    done = await hermes.run("send", script({"say": "by context"}), env=nothing)
    assert (done.code, done.out) == (0, "by context\n"), done.err
    examined = (await hermes.run("doctor", "--json", env=nothing)).json()
    assert "chmod 600" in next(f["todo"] for f in examined if f["check"] == "key file")


async def test_the_doctor_finds_nothing_wrong_and_what_is(hermes: Any) -> None:
    well = await hermes.run("doctor", "--send", "--json")
    states = {finding["check"]: finding["state"] for finding in well.json()}
    assert well.code == 0, well.out
    assert states["test message"] == states["Profile default"] == states["gateway: store"] == "ok"
    wrong = await hermes.run("doctor", env={"HERMES_API_KEY": "not-the-key"})
    assert wrong.code == 1
    assert "FAIL key: the gateway does not know this key" in wrong.out
    away = await hermes.run("doctor", env={"HERMES_URL": "http://127.0.0.1:9"})
    assert away.code == 1
    assert "FAIL reachable" in away.out


async def test_a_file_of_the_agent_is_listed_and_saved(hermes: Any, tmp_path: Path, script: Any) -> None:
    made = {"calls": [{"name": "terminal", "arguments": {"command": "printf 'a,b\\n' > r.csv"}}]}
    sent = {"calls": [{"name": "send_file", "arguments": {"path": "r.csv", "caption": "Numbers"}}]}
    done = await hermes.run("send", "-s", "files", script(made, sent, {"say": "There."}))
    assert (done.code, done.out) == (0, "There.\n"), done.err
    assert "The agent sends r.csv" in done.err
    (listed,) = (await hermes.run("sessions", "files", "files", "--json")).json()
    assert (listed["name"], listed["size"], listed["caption"]) == ("r.csv", 4, "Numbers")
    assert (await hermes.run("sessions", "files", "files", "r.csv", "-o", "-")).out == "a,b\n"
    place = str(tmp_path / "mine.csv")
    assert (await hermes.run("sessions", "files", "files", listed["id"], "-o", place)).code == 0
    assert Path(place).read_text() == "a,b\n"
    again = await hermes.run("sessions", "files", "files", "r.csv", "-o", place)
    assert again.code == 2 and "File exists" in again.err
    assert (await hermes.run("sessions", "files", "files", "none.csv")).code != 0
