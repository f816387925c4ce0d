"""Which updates of Telegram's are one message: albums, and long texts that a client has cut."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_contracts.access import TelegramAccount
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_gateway.gateway.channels.raw import Refused
from hermes_gateway.gateway.channels.telegram.joining import follows, joined, open_parts
from hermes_gateway.gateway.channels.telegram.reading import Me, read_update

ACCOUNT = TelegramAccount(name="bot", namespace="team", profile="helper", bot_token="4242:AAtoken-of-the-bot-which-is-long")
ME = Me(4242, "hermes_bot")
LONG = "a" * 4_050


def part(number: int, text: str = "", *, user: int = 7, chat: int = -100, **more: Any) -> dict[str, Any]:
    body = {"message_id": number, "date": 1, "chat": {"id": chat, "type": "supergroup"}, "from": {"id": user}, **more}
    return {"update_id": 1000 + number, "message": body | ({"text": text} if text else {})}


def photo(number: int, album: str = "A", **more: Any) -> dict[str, Any]:
    return part(number, media_group_id=album, photo=[{"file_id": f"F{number}"}], **more)


def numbers(groups: list[list[dict[str, Any]]]) -> list[list[int]]:
    return [[one["message"]["message_id"] for one in group] for group in groups]


def test_parts_come_together_whoever_writes_between_them() -> None:
    found = joined(
        [part(1, LONG), part(2, "me too", user=8), part(3, LONG), photo(4), part(5, "the end"), photo(6), part(7, "x")]
    )
    assert numbers(found) == [[1, 3, 5], [2], [4, 6], [7]]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (part(1, "short"), part(2, "shorter")),
        (part(1, LONG), part(2, "of another", user=8)),
        (part(1, LONG), part(2, "elsewhere", chat=-200)),
        (part(1, LONG), part(2, "in a topic", message_thread_id=3)),
        (part(1, LONG), part(2, "much later", date=60)),
        (part(2, LONG), part(1, "before it")),
        (part(1, LONG), part(2, "/stop")),
        (part(1, LONG), photo(2)),
        (photo(1), photo(2, "B")),
        (photo(1), part(2, "a word on it")),
        (part(1, LONG), {"update_id": 5, "callback_query": {}}),
        ({"update_id": 5, "message": "x"}, part(2, "y")),
    ],
)
def test_what_is_a_message_of_its_own(earlier: dict[str, Any], later: dict[str, Any]) -> None:
    assert not follows(earlier, later)


def test_lengths_are_counted_as_clients_count_them() -> None:
    assert follows(part(1, "😀" * 2_000), part(2, "rest"))
    assert not follows(part(1, "é" * 3_000), part(2, "rest"))


def test_a_text_is_whole_with_its_short_end_and_an_album_never_says_so() -> None:
    assert open_parts([part(1, LONG)]) == 1
    assert open_parts([part(1, LONG), part(2, "end")]) == 0
    assert open_parts([photo(1), photo(2), part(3, "else")]) == 2


def test_an_album_is_one_message_and_one_mention_addresses_it() -> None:
    mention = {"type": "mention", "offset": 0, "length": 11}
    parts = [photo(1), photo(2, caption="@hermes_bot which?", caption_entities=[mention]), photo(3)]
    found = read_update(ACCOUNT, ME, *parts)
    assert isinstance(found, ChatMessage)
    assert (found.text, [file.handle for file in found.attachments]) == ("which?", ["F1", "F2", "F3"])
    assert found.update_id == "-100:1+2"
    assert read_update(ACCOUNT, ME, parts[0]) == Refused("not addressed to us")
