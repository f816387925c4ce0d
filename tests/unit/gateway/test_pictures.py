"""A picture is what its bytes say, and nothing else gets in."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, strategies as st

from hermes_contracts.conversation import picture_type
from hermes_contracts.store_api import MAX_MEDIA_BYTES
from hermes_gateway.gateway.pictures import MAX_PICTURES, PictureUrl, read_picture, read_pictures
from hermes_gateway.gateway.web.errors import ApiError

HEADS = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\x00\x00\x00\x00WEBP",
}


def url(data: bytes, declared: str = "image/png") -> str:
    return f"data:{declared};base64,{base64.b64encode(data).decode()}"


@pytest.mark.parametrize(("kind", "head"), HEADS.items())
def test_the_bytes_say_the_type_whatever_is_declared(kind: str, head: bytes) -> None:
    picture = read_picture(PictureUrl("images.0", url(head + b"rest", "image/jpeg")))
    assert (picture.media_type, picture.part.media_type, picture.part.size) == (kind, kind, len(head) + 4)
    assert picture.data == head + b"rest"
    assert picture.part.media_id == read_picture(PictureUrl("x", url(head + b"rest"))).part.media_id


@pytest.mark.parametrize(
    ("sent", "status", "why"),
    [
        ("https://example.com/cat.png", 400, "addresses are not fetched"),
        ("HTTP://169.254.169.254/", 400, "addresses are not fetched"),
        ("file:///etc/passwd", 400, "must be a data: URL"),
        ("", 400, "must be a data: URL"),
        ("data:image/png,abc", 400, "must be a data: URL"),
        ("data:text/html;base64,PGI+", 400, "must be a picture"),
        ("data:image/png;base64,@@@@", 400, "not valid base64"),
        ("data:image/png;base64,YWJj\n", 400, "not valid base64"),
        ("data:image/svg+xml;base64,PHN2Zz4=", 400, "not a picture of a type"),
        (url(b""), 400, "not a picture of a type"),
        (url(HEADS["image/png"] + bytes(MAX_MEDIA_BYTES)), 413, "larger than 8 MiB"),
    ],
)
def test_what_is_refused_and_why(sent: str, status: int, why: str) -> None:
    with pytest.raises(ApiError, match=f"^images\\.3: .*{why}") as caught:
        read_picture(PictureUrl("images.3", sent))
    assert caught.value.status == status
    assert "YWJj" not in caught.value.message, "what was sent is not repeated"


def test_the_largest_picture_fits() -> None:
    head = HEADS["image/png"]
    assert read_picture(PictureUrl("x", url(head + bytes(MAX_MEDIA_BYTES - len(head))))).part.size == MAX_MEDIA_BYTES


async def test_a_message_has_so_many_pictures_and_no_more() -> None:
    sent = [PictureUrl(f"images.{n}", url(HEADS["image/gif"])) for n in range(MAX_PICTURES + 1)]
    assert len(await read_pictures(sent[:-1])) == MAX_PICTURES
    with pytest.raises(ApiError, match=r"images\.16: .*at most 16"):
        await read_pictures(sent)


@given(st.text())
def test_no_text_makes_it_fail_otherwise(text: str) -> None:
    with pytest.raises(ApiError):
        read_picture(PictureUrl("x", text))


@given(st.binary(max_size=40))
def test_only_known_beginnings_are_pictures(data: bytes) -> None:
    kind = picture_type(data)
    assert kind is None or data.startswith((HEADS[kind][:3], b"GIF87a"))
