"""A file of the workspace goes with the answer, once, or the model is told why not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes_agent.testing.model import ScriptedModel, call, say
from hermes_agent.tools.sandbox_port import SandboxFailure
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import media_id
from hermes_contracts.store_api import MAX_MEDIA_BYTES
from tests.unit.agent.agent_scene import Scene

PNG = b"\x89PNG\r\n\x1a\n" + bytes(400_000)


def sending(*files: dict[str, Any]) -> Any:
    """One round of the model's in which it sends files."""
    return call(*((f"c{number}", "send_file", json.dumps(file)) for number, file in enumerate(files)))


async def test_files_go_with_the_answer() -> None:
    first = sending(
        {"path": "out/report.csv", "caption": "  The numbers  "}, {"path": "/workspace/plot", "name": "plot.bin"}
    )
    scene = Scene(ScriptedModel([first, say("There they are.")]))
    scene.sandbox.files |= {"out/report.csv": b"a,b\n", "plot": PNG}
    outcome = await scene.send()
    assert outcome.reply == "There they are."
    turn = scene.store.turn("u1")
    assert [(f.name, f.media_type, f.size, f.caption) for f in turn.offered] == [
        ("report.csv", "text/csv", 4, "The numbers"), ("plot.bin", "image/png", len(PNG), ""),
    ]  # fmt: skip
    assert scene.store.media[media_id(PNG)] == PNG
    assert turn.commits[0].files
    assert "report.csv (text/csv, 4 bytes) goes to the user" in scene.results()[0].text


async def test_an_answer_without_files_asks_for_none() -> None:
    scene = Scene(ScriptedModel([say("Nothing to send.")]))
    await scene.send()
    assert not scene.store.turn("u1").commits[0].files


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"path": "gone.txt"}, "no such file"),
        ({"path": "out"}, "is a directory"),
        ({"path": "/tmp/secret"}, "outside of the workspace"),
        ({"path": "/proc/self/environ"}, "devices and kernel files"),
        ({"path": "empty"}, "is empty"),
        ({"path": "large"}, "at most 8 MiB"),
        ({"path": "out/a", "name": "../a"}, "name: must be"),
        ({"path": "out/a", "name": "a\nb"}, "name: must be"),
        ({"path": "out/a", "caption": "x" * 1_001}, "caption"),
    ],
)
async def test_what_cannot_be_sent_is_told_to_the_model(arguments: dict[str, str], why: str) -> None:
    scene = Scene(ScriptedModel([sending(arguments), say("It did not work.")]))
    scene.sandbox.files |= {"out/a": b"a", "empty": b"", "large": bytes(MAX_MEDIA_BYTES + 1), "tmp/secret": b"key"}
    await scene.send()
    (result,) = scene.results()
    assert result.is_error and why in result.text
    turn = scene.store.turn("u1")
    assert (turn.offered, turn.commits[0].files) == ([], False)


async def test_a_file_that_vanishes_while_it_is_read_is_an_error() -> None:
    scene = Scene(ScriptedModel([sending({"path": "a"}), say("It is gone.")]))
    scene.sandbox.files["a"] = b"a"

    async def read(path: str, *, offset: int, limit: int) -> bytes:
        raise SandboxFailure(f"{path}: no such file")

    scene.sandbox.read_file = read  # type: ignore[method-assign]
    await scene.send()
    (result,) = scene.results()
    assert result.is_error and "no such file" in result.text


async def test_one_name_is_one_file() -> None:
    scene = Scene(ScriptedModel([sending({"path": "a/x"}, {"path": "b/x"}), say("One.")]))
    scene.sandbox.files |= {"a/x": b"1", "b/x": b"2"}
    await scene.send()
    first, second = scene.results()
    assert not first.is_error and second.is_error and "another file 'x'" in second.text
    assert len(scene.store.turn("u1").offered) == 1


async def test_what_a_former_life_offered_goes_with_the_answer() -> None:
    scene = Scene(ScriptedModel([sending({"path": "a"}), say("There it is."), say("There it is, again.")]))
    scene.sandbox.files["a"] = b"a"

    def die(name: str, when: str) -> None:
        if (name, when) == ("commit", "before"):
            raise HermesError(ErrorCode.FENCED, "the pod died")

    scene.store.hook = die
    with pytest.raises(HermesError):
        await scene.send()
    scene.store.hook = lambda _name, _when: None
    scene.restart(new_epoch=True)
    await scene.send()
    turn = scene.store.turn("u1")
    assert [file.name for file in turn.offered] == ["a"]
    assert turn.commits[-1].files
