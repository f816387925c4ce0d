"""A turn handed to a program in the sandbox: it asks the Profile's model through the agent, and outlives its pod."""

from __future__ import annotations

import base64
import json
import uuid
import zlib
from pathlib import Path

from release.kubectl import apply, kubectl
from tests.e2e.framework.installation import Script, profile, profile_ready
from tests.e2e.framework.person import Person
from tests.e2e.framework.sessions import pod_running, session_of, shell

STORY = "drain"
NAME = "codex"
PROGRAM = Path(__file__).parents[1] / "fakes" / "codex_program.py"
_UNPACK = "import base64,sys,zlib;exec(zlib.decompress(base64.b64decode(''.join(sys.argv[1:{count}]))))"
_WORD = 500


def packed() -> list[str]:
    """Return a command that holds the program itself, so that no image has to."""
    text = base64.b64encode(zlib.compress(PROGRAM.read_bytes(), 9)).decode()
    words = [text[at : at + _WORD] for at in range(0, len(text), _WORD)]
    return ["python3", "-c", _UNPACK.format(count=len(words) + 1), *words]


def runs(command: str, say: str) -> str:
    return Script(({"calls": [{"name": "exec_command", "arguments": {"cmd": command}}]}, {"say": say})).text()


async def test_a_program_in_the_sandbox_works_with_the_profiles_model_and_goes_on_in_the_next_pod() -> None:
    model = {
        "provider": "scripted", "name": "scripted-1", "apiMode": "codex_app_server", "codex": {"command": packed()},
    }  # fmt: skip
    workspace = {"kind": "PersistentVolumeClaim", "size": "64Mi"}
    await apply(profile(STORY, NAME, model=model, sandbox={"workspace": workspace}))
    await profile_ready(STORY, NAME)
    chat = f"codex-{uuid.uuid4().hex[:8]}"
    async with Person(STORY) as ann:
        done = await ann.say(chat, runs("echo once >> count.txt; cat count.txt", "counted"), profile=NAME)
        assert done == "counted"
        session = (await session_of(ann.namespace, chat))["metadata"]["name"]
        pod = (await pod_running(ann.namespace, session))["metadata"]["name"]
        kept = await shell(ann.namespace, pod, "sandbox", "sh", "-c", "ls /workspace/.hermes/codex/threads")
        assert kept.startswith("thread-")

        await kubectl("delete", "pod", pod, "-n", ann.namespace, "--wait=false")
        assert await ann.say(chat, runs("cat count.txt", "read"), profile=NAME) == "read"
        (mine,) = [s for s in await ann.sessions() if chat in str(s)]
        shown = (await ann.request("GET", f"/api/sessions/{mine['id']}/messages")).text
        assert shown.count("[exit code 0]") == 2 and json.dumps("once\nonce")[1:-1] not in shown
