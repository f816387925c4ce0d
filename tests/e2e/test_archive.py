"""An Archive workspace: no volume, and the files are there again in the next pod."""

from __future__ import annotations

import uuid

from release.kubectl import apply, get_all, kubectl, until
from tests.e2e.framework.installation import commands, profile, profile_ready
from tests.e2e.framework.person import Person
from tests.e2e.framework.sessions import session_of, state_of, suspend

STORY = "archive"
FIRST = "mkdir -m 750 d; echo kept > d/f; ln -s d/f l; head -c 3000000 /dev/urandom > big; md5sum big > sums; touch .hidden"


async def test_files_outlive_the_pod_without_a_volume() -> None:
    await apply(profile(STORY, "archive", sandbox={"workspace": {"kind": "Archive", "size": "64Mi"}}))
    await profile_ready(STORY, "archive")
    chat = f"files-{uuid.uuid4().hex[:8]}"
    async with Person(STORY) as ann:
        await ann.say(chat, commands(FIRST, say="written"), profile="archive")
        session = await session_of(ann.namespace, chat)
        name, epoch = session["metadata"]["name"], session["status"]["epoch"]
        assert not await get_all("persistentvolumeclaims", ann.namespace)

        await suspend(ann.namespace, name, True)
        await state_of(ann.namespace, name, "Suspended")
        await suspend(ann.namespace, name, False)
        seen = await ann.say(chat, "!cat l; stat -c %a d; md5sum -c sums; ls -A", profile="archive")
        for part in ("kept", "750", "big: OK", ".hidden"):
            assert part in seen
        assert (await state_of(ann.namespace, name, "Ready"))["status"]["epoch"] == epoch + 1

        # Somebody ends the pod, as the drain of a node does: what was written a moment ago comes along.
        await ann.say(chat, commands("echo fresh > late", say="written"), profile="archive")
        await kubectl("delete", "pods", "--all", "-n", ann.namespace, "--wait=false")
        assert "fresh" in await ann.say(chat, "!cat late", profile="archive")
        (mine,) = [s for s in await ann.sessions() if chat in str(s)]
        transcript = await ann.request("GET", f"/api/sessions/{mine['id']}/messages")
        assert "from the platform" not in transcript.text, "nothing was lost, so nothing is told"

        await kubectl("delete", "hs", name, "-n", ann.namespace, "--wait=true")

        async def no_pods() -> bool:
            return not await get_all("pods", ann.namespace)

        await until("the session's pods to be gone", no_pods)
        assert "kept" in await ann.say(chat, "!cat l", profile="archive"), "the object went, the files did not"
