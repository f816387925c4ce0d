"""Which updates of Telegram's are messages to the bot, and what they say."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_contracts.access import TelegramAccount
from hermes_gateway.gateway.channels.base import ChatMessage
from hermes_gateway.gateway.channels.raw import Refused
from hermes_gateway.gateway.channels.telegram.markdown_v2 import render_markdown_v2, without_escapes
from hermes_gateway.gateway.channels.telegram.reading import Me, read_update

TOKEN = "4242:AAtoken-of-the-bot-which-is-long"
ACCOUNT = TelegramAccount(name="bot", namespace="team", profile="helper", bot_token=TOKEN)
ME = Me(4242, "hermes_bot")


def message(
    text: str = "", *, chat: str = "private", entities: list[dict[str, Any]] | None = None, **more: Any
) -> dict[str, Any]:
    room = {"id": 7 if chat == "private" else -100, "type": chat}
    body = {"message_id": 5, "date": 1, "chat": room, "from": {"id": 7, "is_bot": False}, "text": text, **more}
    return {"update_id": 1, "message": body | {"entities": entities or []}}


def mention(offset: int, name: str = "@hermes_bot") -> dict[str, Any]:
    return {"type": "mention", "offset": offset, "length": len(name)}


def read(update: dict[str, Any]) -> ChatMessage | Refused:
    return read_update(ACCOUNT, ME, update)


@pytest.mark.parametrize(
    ("update", "text"),
    [
        (message("hello"), "hello"),
        (message("/stop@hermes_bot now"), "/stop now"),
        (message("@hermes_bot hi", chat="group", entities=[mention(0)]), "hi"),
        (message("😀😀 @hermes_bot hi", chat="group", entities=[mention(5)]), "😀😀  hi"),
        (message("hi @Hermes_Bot", chat="group", entities=[mention(3)]), "hi"),
        (message("/stop@hermes_bot", chat="group"), "/stop"),
        (message("yes", chat="group", reply_to_message={"from": {"id": 4242}}), "yes"),
        (message(caption="look", text=None, photo=[{}]), "look"),
        (
            message(
                "hi you", chat="group", entities=[{"type": "text_mention", "offset": 3, "length": 3, "user": {"id": 4242}}]
            ),
            "hi",
        ),
    ],
)
def test_what_is_said_to_the_bot(update: dict[str, Any], text: str) -> None:
    found = read(update)
    assert isinstance(found, ChatMessage)
    assert found.text == text
    assert (found.account, found.user) == ("4242", "7")


@pytest.mark.parametrize(
    "update",
    [
        message("hello all", chat="group"),
        message("@other hi", chat="group", entities=[mention(0, "@other")]),
        message("/stop@other_bot", chat="group"),
        message("/stop", chat="group"),
        message("mine", **{"from": {"id": 4242, "is_bot": True}}),
        message(text=None, photo=[{}], media_group_id="1"),
        message(text=None, new_chat_members=[{}]),
        message("hi", **{"from": None}),
        {"update_id": 1, "edited_message": message("hi")["message"]},
        {"update_id": 1, "callback_query": {"id": "1", "from": {"id": 7}, "data": "/stop"}},
        {"update_id": 1, "callback_query": {"id": "1", "from": {"id": 7}, "message": message("x")["message"], "data": "rm"}},
        {"update_id": 1, "message": {"message_id": "5", "chat": [], "from": 3, "entities": "x"}},
    ],
)
def test_what_is_nothing_to_the_bot(update: dict[str, Any]) -> None:
    assert isinstance(read(update), Refused)


@pytest.mark.parametrize("offset", [-5, 3, 10**9, None, "x"])
def test_entities_from_nowhere_do_no_harm(offset: Any) -> None:
    found = read(message("hello", entities=[{"type": "mention", "offset": offset, "length": 400}]))
    assert isinstance(found, ChatMessage)
    assert found.text == "hello"


@pytest.mark.parametrize(
    ("markdown", "rendered"),
    [
        ("Hello, *you* & **me**.", "Hello, _you_ & *me*\\."),
        ("# Title!", "*Title\\!*"),
        ("- a\n- b-c", "• a\n• b\\-c"),
        ("2. x", "2\\. x"),
        ("`a\\b`", "`a\\\\b`"),
        ("```py\nx = `1`\n```", "```py\nx = \\`1\\`\n```"),
        ("> said.", ">said\\."),
        ("[a.b](https://x.y/(z))", "[a\\.b](https://x.y/(z\\))"),
        ("[x](ftp://y.z)", "x"),
        ("~~no~~", "~no~"),
        ("**a _b_ c**", "*a _b_ c*"),
    ],
)
def test_markup(markdown: str, rendered: str) -> None:
    assert render_markdown_v2(markdown) == rendered


def test_without_escapes_every_word_is_there() -> None:
    assert without_escapes(render_markdown_v2("1.5 * (2+3) = 7.5!")) == "1.5 * (2+3) = 7.5!"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"allow_everyone": True}, "anybody in the world"),
        ({"webhook_url": "https://x/telegram/bot"}, "belong together"),
        ({"webhook_url": "https://x/other", "secret_token": "s" * 20}, "must end with /telegram/bot"),
    ],
)
def test_an_account_that_cannot_be_meant_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TelegramAccount(name="bot", namespace="team", profile="helper", bot_token=TOKEN, **fields)
