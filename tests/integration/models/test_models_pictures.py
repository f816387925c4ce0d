"""Pictures travel as ids; their bytes are put in at the wire."""

from __future__ import annotations

import base64
import json

import pytest

from hermes_contracts.conversation import ImagePart, Message, Role, TextPart
from hermes_contracts.errors import ErrorCode
from hermes_contracts.model_api import Finish, ModelError, ModelRequest, Purpose
from hermes_gateway.models.pictures import Pictures
from tests.integration.models.harness import SID, FakeStore, Models, ask, script, secret, wait_for

DATA = bytes(range(256)) * 10


def media_id(letter: str) -> str:
    return "m" + letter * 25


def with_picture(letter: str = "a") -> ModelRequest:
    picture = ImagePart(media_id=media_id(letter), media_type="image/png", size=len(DATA))
    return ask(Message(role=Role.USER, parts=(TextPart(text="what is it?"), picture)))


def body(models: Models) -> str:
    assert models.memory.kept is not None
    return models.memory.kept[-1].body.decode()


def seeing(models: Models, vision: bool) -> None:
    model = {
        "provider": "openai", "name": "m", "baseUrl": models.base + "/v1", "secretRef": {"name": "key"},
        "facts": {"vision": vision},
    }  # fmt: skip
    models.add_profile("eyes", model, key=secret())


async def test_a_model_that_sees_gets_the_bytes(models: Models) -> None:
    seeing(models, True)
    models.store.media[SID, media_id("a")] = ("image/png", DATA)
    for _ in range(2):
        assert isinstance((await models.events(with_picture(), "eyes"))[-1], Finish)
        assert base64.b64encode(DATA).decode() in body(models)
    assert models.store.asked == ["get_media"] * 3, "three pages, once"


async def test_a_model_that_does_not_see_is_told_so(models: Models) -> None:
    seeing(models, False)
    assert isinstance((await models.events(with_picture(), "eyes"))[-1], Finish)
    assert "[A picture was here. The model cannot see it.]" in body(models)
    assert models.store.asked == ["descriptions"], "its bytes are of no use"


async def test_a_description_takes_the_pictures_place_for_good(models: Models) -> None:
    seeing(models, False)
    models.store.described[media_id("a")] = 'a red "bus"'
    first = with_picture().messages[0]
    await models.events(ask(first), "eyes")
    words = r"[A picture was here. Another model describes it so: a red \"bus\"]"
    assert words in body(models)
    before = json.loads(body(models))["messages"]
    models.store.away = True
    await models.events(ask(first, Message.assistant("A bus."), Message.user("sure?")), "eyes")
    assert models.store.asked == ["descriptions"], "it never changes"
    assert json.loads(body(models))["messages"][: len(before)] == before


async def test_the_picture_itself_goes_to_a_model_that_sees_though_it_is_described(models: Models) -> None:
    seeing(models, True)
    models.store.media[SID, media_id("a")] = ("image/png", DATA)
    models.store.described[media_id("a")] = "a bus"
    await models.events(with_picture(), "eyes")
    assert "a bus" not in body(models) and base64.b64encode(DATA).decode() in body(models)


async def test_who_describes_pictures_is_the_profiles_model_for_them_or_another_that_sees(models: Models) -> None:
    seeing(models, False)
    models.store.media[SID, media_id("a")] = ("image/png", DATA)
    asked = with_picture().model_copy(update={"purpose": Purpose.VISION})
    nobody = (await models.events(asked, "eyes"))[-1]
    assert isinstance(nobody, ModelError) and nobody.code is ErrorCode.NOT_CONFIGURED
    assert "model.auxiliary.vision" in nobody.message and not models.memory.requests

    address = {"provider": "openai", "baseUrl": models.base + "/v1", "secretRef": {"name": "key"}}
    fallback = {**address, "name": "stand-in", "facts": {"vision": True}}
    own = {**address, "name": "eye", "facts": {"vision": True}}
    main = {**address, "name": "main", "facts": {"vision": False}, "fallbacks": [fallback]}
    models.add_profile("stood-in-for", main, key=secret())
    models.add_profile("own", {**main, "auxiliary": {"vision": own}}, key=secret())
    for profile, place in (("stood-in-for", "model.fallbacks[0]"), ("own", "model.auxiliary.vision")):
        end = (await models.events(asked, profile))[-1]
        assert isinstance(end, Finish) and end.place == place
        assert base64.b64encode(DATA).decode() in body(models)
    records = await wait_for(lambda: len(models.records) == 2 and models.records)
    assert {record.purpose for record in records} == {"vision"}


async def test_a_picture_that_is_gone_does_not_stop_the_conversation(models: Models) -> None:
    seeing(models, True)
    models.store.media["s" + "b" * 25, media_id("a")] = ("image/png", DATA)
    assert isinstance((await models.events(with_picture(), "eyes"))[-1], Finish)
    assert base64.b64encode(DATA).decode() not in body(models), "somebody else's picture"


async def test_a_store_that_is_away_is_waited_for_and_then_told(models: Models) -> None:
    seeing(models, True)
    models.store.away = True
    error = (await models.events(with_picture(), "eyes"))[-1]
    assert isinstance(error, ModelError) and (error.code, error.retryable) == (ErrorCode.UNAVAILABLE, True)
    assert models.store.asked == ["get_media"] * 3 and not models.memory.requests


async def test_a_picture_that_the_provider_refuses_is_left_out(models: Models) -> None:
    seeing(models, True)
    models.store.media[SID, media_id("a")] = ("image/png", DATA)
    picture = with_picture().messages[0]
    request = ask(picture, script({"error": "image_refused", "times": 1}, {"say": "a guess"}, id="once"))
    events = await models.events(request, "eyes")
    assert isinstance(events[-1], Finish) and "A picture was here" in body(models)


async def test_memory_keeps_sessions_apart() -> None:
    store = FakeStore()
    store.media[SID, media_id("a")] = ("image/png", DATA)
    pictures = Pictures(store)
    assert set(await pictures.get(SID, [media_id("a")])) == {media_id("a")}
    assert await pictures.get("s" + "b" * 25, [media_id("a")]) == {}


async def test_memory_for_pictures_is_bounded() -> None:
    store = FakeStore(page_bytes=10_000)
    for letter in "abc":
        store.media[SID, media_id(letter)] = ("image/png", DATA)
    pictures = Pictures(store, limit_bytes=2 * len(DATA))
    await pictures.get(SID, [media_id("a"), media_id("b")])
    await pictures.get(SID, [media_id("a")])
    await pictures.get(SID, [media_id("c")])
    assert len(store.asked) == 3
    await pictures.get(SID, [media_id("a")])
    assert len(store.asked) == 3, "the one used longest ago left"
    found = await pictures.get(SID, [media_id("b")])
    assert len(store.asked) == 4 and found[media_id("b")].data == DATA


@pytest.mark.parametrize("total", [10**9])
async def test_pages_that_do_not_end_are_not_read_for_ever(total: int) -> None:
    class Endless(FakeStore):
        def _get_media(self, request):  # type: ignore[no-untyped-def]
            page = super()._get_media(request)
            return page.model_copy(update={"total": total})

    store = Endless(media={(SID, media_id("a")): ("image/png", DATA)})
    with pytest.raises(Exception, match="cannot be read now"):
        await Pictures(store).get(SID, [media_id("a")])
