"""A picture for a model that takes none: another one describes it, and the words are still there when the pod is another."""

from __future__ import annotations

import base64
import uuid

from release.kubectl import apply, kubectl
from tests.e2e.framework.installation import profile, profile_ready
from tests.e2e.framework.person import Person
from tests.e2e.framework.sessions import pod_running, session_of

STORY = "pictures"
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
DESCRIBED = "Another model describes it so"


async def show(person: Person, chat: str, text: str) -> str:
    """Send a picture with a text and return the answer, in which the scripted model repeats what it was told."""
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    content = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}]
    body = {"model": "default", "messages": [{"role": "user", "content": content}]}
    headers = {"X-Hermes-Session-Id": chat}
    response = await person.request("POST", "/v1/chat/completions", json=body, headers=headers, key=uuid.uuid4().hex)
    assert response.status_code == 200, response.text
    return str(response.json()["choices"][0]["message"]["content"])


async def test_a_picture_is_described_and_the_description_outlives_the_pod() -> None:
    eye = {"provider": "scripted", "name": "eye"}
    model = {"provider": "scripted", "name": "blind", "facts": {"vision": False}, "auxiliary": {"vision": eye}}
    await apply(profile(STORY, model=model))
    await profile_ready(STORY)
    async with Person(STORY) as ann:
        chat = f"gallery-{uuid.uuid4().hex}"
        assert DESCRIBED in await show(ann, chat, "what is it?")
        name = (await session_of(ann.namespace, chat))["metadata"]["name"]
        pod = (await pod_running(ann.namespace, name))["metadata"]["name"]
        await kubectl("delete", "pod", pod, "-n", ann.namespace, "--grace-period=0", "--force", "--wait=false")
        assert DESCRIBED in await show(ann, chat, "and this one?")
