"""What Telegram sends, as messages of people. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from hermes_contracts.access import TelegramAccount
from hermes_contracts.envelopes import MAX_COMMAND_BYTES, MAX_TEXT_CHARACTERS
from hermes_gateway.gateway.channels.base import MAX_ATTACHMENTS, Attachment, ChatMessage, Pressed
from hermes_gateway.gateway.channels.raw import Refused, object_at
from hermes_gateway.gateway.channels.telegram.markdown_v2 import escape

CHANNEL = "telegram"
UPDATES = ["message", "callback_query"]
"""Kinds of updates that are asked for: edits and what happens in channels are nobody's message to us."""

_FILES = ("document", "voice", "audio", "video", "video_note", "sticker", "animation")
_COMMAND = re.compile(r"/([a-zA-Z0-9_]{1,32})(?:@([A-Za-z0-9_]{1,64}))?(?=\s|$)")


@dataclass(frozen=True)
class Me:
    """The bot, as Telegram knows it."""

    id: int
    username: str


@dataclass(frozen=True)
class _Part:
    message: ChatMessage
    addressed: bool


def read_update(account: TelegramAccount, me: Me, update: dict[str, Any], *rest: dict[str, Any]) -> ChatMessage | Refused:
    """Read an update: a message with the rest of its parts, or the press of a button. In a group a message that is addressed
    to the bot in one part is addressed to it as a whole."""
    if isinstance(update.get("callback_query"), dict):
        return _press(account, update["callback_query"])
    read = [_part(account, me, one.get("message")) for one in (update, *rest)]
    parts = [one for one in read if isinstance(one, _Part)]
    if not parts:
        return next(one for one in read if isinstance(one, Refused))
    if not any(part.addressed for part in parts):
        return Refused("not addressed to us")
    first = parts[0].message
    text = "\n".join(part.message.text for part in parts if part.message.text)
    attachments = tuple(file for part in parts for file in part.message.attachments)
    if not text and not attachments:
        return Refused("nothing that a person wrote")
    return replace(
        first,
        text=text[:MAX_TEXT_CHARACTERS],
        attachments=attachments[:MAX_ATTACHMENTS],
        # Another number of parts is another message: nothing is lost where a part comes late.
        update_id=first.update_id if len(parts) == 1 else f"{first.update_id}+{len(parts) - 1}",
    )


def _part(account: TelegramAccount, me: Me, message: Any) -> _Part | Refused:
    if not isinstance(message, dict):
        return Refused("not a message")
    chat, sender = object_at(message, "chat"), object_at(message, "from")
    number = message.get("message_id")
    if not (isinstance(chat.get("id"), int) and isinstance(sender.get("id"), int) and isinstance(number, int)):
        return Refused("no chat, person or number")
    if sender["id"] == me.id:
        return Refused("our own message")
    text, entities = _words(message)
    direct = chat.get("type") == "private"
    text, named = _without_mentions(text, entities, me)
    command = _COMMAND.match(text)
    if command is not None and command.group(2) is not None:
        if command.group(2).lower() != me.username.lower():
            return Refused("a command for another bot")
        text, named = f"/{command.group(1)}{text[command.end() :]}", True
    answers_us = object_at(object_at(message, "reply_to_message"), "from").get("id") == me.id
    found = ChatMessage(
        channel=CHANNEL,
        account=account.account,
        team="",
        user=str(sender["id"]),
        chat=str(chat["id"]),
        kind="direct" if direct else "group",
        thread=_topic(message),
        reply_thread=_topic(message),
        update_id=f"{chat['id']}:{number}",
        order=str(number),
        text=text,
        bot=bool(sender.get("is_bot")),
        attachments=_attachments(message),
    )
    return _Part(found, direct or named or answers_us)


def press_id(update: dict[str, Any]) -> str:
    """Return the id of the press that an update tells of; empty when it tells of none."""
    return str(object_at(update, "callback_query").get("id", ""))


def _press(account: TelegramAccount, press: dict[str, Any]) -> ChatMessage | Refused:
    message, sender = object_at(press, "message"), object_at(press, "from")
    chat, number = object_at(message, "chat"), message.get("message_id")
    command = str(press.get("data", ""))
    if not (isinstance(chat.get("id"), int) and isinstance(sender.get("id"), int) and isinstance(number, int)):
        return Refused("a press without chat, person or message")
    if not command.startswith("/") or len(command.encode()) > MAX_COMMAND_BYTES:
        return Refused("not a button of ours")
    return ChatMessage(
        channel=CHANNEL,
        account=account.account,
        team="",
        user=str(sender["id"]),
        chat=str(chat["id"]),
        kind="direct" if chat.get("type") == "private" else "group",
        thread=_topic(message),
        reply_thread=_topic(message),
        update_id=f"press:{str(press.get('id', ''))[:64]}",
        order=str(number),
        text=command,
        bot=bool(sender.get("is_bot")),
        pressed=Pressed(str(number), escape(str(message.get("text", ""))[:MAX_TEXT_CHARACTERS])),
    )


def _words(message: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    key = "text" if isinstance(message.get("text"), str) else "caption"
    text = message.get(key)
    entities = message.get("entities" if key == "text" else "caption_entities")
    found = [one for one in entities if isinstance(one, dict)] if isinstance(entities, list) else []
    return (text if isinstance(text, str) else ""), found


def _without_mentions(text: str, entities: list[dict[str, Any]], me: Me) -> tuple[str, bool]:
    """Return the text without the bot's own mentions, and whether there was one. Places are in UTF-16 units."""
    units, kept, at = text.encode("utf-16-le", "surrogatepass"), list[bytes](), 0
    for entity in sorted(entities, key=lambda one: one.get("offset", 0)):
        start, length = entity.get("offset"), entity.get("length")
        if not (isinstance(start, int) and isinstance(length, int)) or not 2 * at <= 2 * start <= len(units):
            continue
        words = units[2 * start : 2 * (start + length)].decode("utf-16-le", "replace")
        by_name = entity.get("type") == "mention" and words.lower() == f"@{me.username}".lower()
        if by_name or (entity.get("type") == "text_mention" and object_at(entity, "user").get("id") == me.id):
            kept.append(units[2 * at : 2 * start])
            at = start + length
    kept.append(units[2 * at :])
    return b"".join(kept).decode("utf-16-le", "replace").strip(), len(kept) > 1


def _attachments(message: dict[str, Any]) -> tuple[Attachment, ...]:
    """Return the files of a message: of a photo the largest size that there is."""
    sizes = message.get("photo")
    photos = [one for one in sizes if isinstance(one, dict)] if isinstance(sizes, list) else []
    files = [(f"{kind}", object_at(message, kind)) for kind in _FILES] + [("photo", photos[-1] if photos else {})]
    if message.get("animation"):
        files = [one for one in files if one[0] != "document"]
    return tuple(
        Attachment(
            name=str(file.get("file_name") or kind)[:200],
            size=file["file_size"] if isinstance(file.get("file_size"), int) else 0,
            handle=str(file["file_id"])[:200],
        )
        for kind, file in files
        if isinstance(file.get("file_id"), str)
    )


def _topic(message: dict[str, Any]) -> str:
    number = message.get("message_thread_id")
    return str(number) if message.get("is_topic_message") and isinstance(number, int) else ""
