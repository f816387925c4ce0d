"""Telegram's Bot API with python-telegram-bot. Imported when there is an account: it takes 0.2 s and 22 MiB."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from telegram import Bot, BotCommand, InlineKeyboardButton, InlineKeyboardMarkup, InputFile, LinkPreviewOptions, WebhookInfo
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
    TimedOut,
)
from telegram.request import HTTPXRequest

from hermes_contracts.access import TelegramAccount
from hermes_contracts.envelopes import Choice, Target
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import MAX_MEDIA_BYTES
from hermes_gateway.gateway.channels.base import FileToSend
from hermes_gateway.gateway.channels.telegram.markdown_v2 import without_escapes
from hermes_gateway.gateway.channels.telegram.reading import UPDATES, Me
from hermes_gateway.gateway.delivery.backoff import Verdict
from hermes_gateway.text.split import cut_utf16

POLL_SECONDS = 25
MAX_CHARACTERS = 4_096
_MAX_CAPTION = 1_024
"""Of a file; a longer one makes Telegram refuse the file. Counted in UTF-16 like all of its texts."""
_UNREADABLE = "can't parse entities"
_TOO_LONG = "message is too long"
_UNCHANGED = "message is not modified"
_PICTURES = frozenset({"image/png", "image/jpeg", "image/webp"})
_NO_PICTURE = ("photo_invalid_dimensions", "image_process_failed", "photo_ext_invalid", "too big for a photo")
_MAX_RETRY_AFTER_SECONDS = 900.0


class TelegramBot:
    """One account's bot. Methods that write return a Verdict and never raise for what Telegram does."""

    def __init__(self, account: TelegramAccount, timeout_seconds: float) -> None:
        request = HTTPXRequest(
            connection_pool_size=64,
            connect_timeout=timeout_seconds,
            read_timeout=timeout_seconds,
            write_timeout=timeout_seconds,
            pool_timeout=timeout_seconds,
            httpx_kwargs={"trust_env": False},
        )
        self._bot = Bot(
            account.bot_token,
            base_url=f"{account.api_url}bot",
            base_file_url=f"{account.api_url}file/bot",
            request=request,
            get_updates_request=request,
        )
        self._request = request
        self._timeout_seconds = timeout_seconds
        self._me: Me | None = None

    async def close(self) -> None:
        """Close connections."""
        await self._request.shutdown()

    async def me(self) -> Me:
        """Return who the bot is. Raises TelegramError."""
        if self._me is None:
            await self._bot.initialize()
            self._me = Me(self._bot.id, self._bot.username or "")
        return self._me

    async def send(self, place: Target, text: str, choices: Sequence[Choice]) -> Verdict:
        """Post rendered text; what Telegram cannot read or finds too long is posted as it is, in pieces if need be."""
        post = partial(self._post, place=place, text=text, choices=choices, markup=True)
        verdict = await self._write(place, post)
        if _UNREADABLE not in verdict.error and _TOO_LONG not in verdict.error:
            return verdict
        plain = without_escapes(text)
        pieces = [plain[start : start + MAX_CHARACTERS // 2] for start in range(0, len(plain), MAX_CHARACTERS // 2)]
        pieces = [plain] if _UNREADABLE in verdict.error and len(plain) <= MAX_CHARACTERS // 2 else pieces
        for number, piece in enumerate(pieces):
            below = choices if number == len(pieces) - 1 else ()
            post = partial(self._post, place=place, text=piece, choices=below, markup=False)
            verdict = await self._write(place, post)
            if verdict.outcome != "delivered":
                return verdict
        return verdict

    async def edit(self, place: Target, message_id: str, text: str, choices: Sequence[Choice]) -> Verdict:
        """Replace text and buttons of a message."""

        async def change(words: str, *, markup: bool) -> Verdict:
            return await self._write(
                place,
                lambda chat: self._bot.edit_message_text(
                    words,
                    chat_id=chat,
                    message_id=int(message_id),
                    parse_mode="MarkdownV2" if markup else None,
                    reply_markup=_keyboard(choices),
                    link_preview_options=LinkPreviewOptions(is_disabled=True),
                ),
            )

        verdict = await change(text, markup=True)
        if _UNREADABLE in verdict.error:
            verdict = await change(without_escapes(text)[:MAX_CHARACTERS], markup=False)
        return Verdict("delivered", platform_message_id=message_id) if _UNCHANGED in verdict.error else verdict

    async def delete(self, place: Target, message_id: str) -> Verdict:
        """Delete a message of ours; one that is gone counts as deleted."""
        verdict = await self._write(place, lambda chat: self._bot.delete_message(chat, int(message_id)))
        return Verdict("delivered") if "to delete not found" in verdict.error else verdict

    async def send_file(self, place: Target, sent: FileToSend) -> Verdict:
        """Post a file; a picture as one, unless Telegram does not take it so."""
        thread = int(place.thread) if place.thread else None
        file = InputFile(sent.data, filename=sent.file.name)
        caption = cut_utf16(sent.file.caption, _MAX_CAPTION) or None
        if sent.file.media_type in _PICTURES:
            verdict = await self._write(
                place, lambda chat: self._bot.send_photo(chat, file, caption=caption, message_thread_id=thread)
            )
            if not any(words in verdict.error for words in _NO_PICTURE):
                return verdict
        return await self._write(
            place,
            lambda chat: self._bot.send_document(
                chat, file, caption=caption, message_thread_id=thread, disable_content_type_detection=True
            ),
        )

    async def typing(self, place: Target) -> None:
        """Show for five seconds that somebody writes."""
        thread = int(place.thread) if place.thread else None
        await self._write(place, lambda chat: self._bot.send_chat_action(chat, "typing", message_thread_id=thread))

    async def noticed(self, press: str) -> None:
        """End the waiting sign of a pressed button. Raises TelegramError."""
        await self._bot.answer_callback_query(press)

    async def fetch_file(self, handle: str) -> bytes:
        """Return a file's bytes. Raises HermesError."""
        try:
            file = await self._bot.get_file(handle)
            if (file.file_size or 0) > MAX_MEDIA_BYTES:
                raise HermesError(ErrorCode.TOO_LARGE, "too large")
            return bytes(await file.download_as_bytearray())
        except TelegramError as error:
            raise HermesError(ErrorCode.UNAVAILABLE, judge(error).error) from error

    async def posting(self) -> WebhookInfo:
        """Return where Telegram posts updates, and how that went. Raises TelegramError."""
        return await self._bot.get_webhook_info()

    async def listen_at(self, url: str, secret: str) -> None:
        """Have Telegram post updates to an address. Raises TelegramError."""
        await self._bot.set_webhook(url, secret_token=secret, allowed_updates=UPDATES, max_connections=40)

    async def listen_here(self) -> None:
        """Have Telegram keep updates until they are fetched. Raises TelegramError."""
        await self._bot.delete_webhook()

    async def offer(self, commands: Sequence[tuple[str, str]]) -> None:
        """Fill the menu of commands. Raises TelegramError."""
        await self._bot.set_my_commands([BotCommand(name, summary[:256]) for name, summary in commands])

    async def fetch(self, offset: int) -> list[dict[str, Any]]:
        """Return updates from `offset` on, which takes those before off Telegram's list. Raises TelegramError."""
        # As they came: an update that the library cannot read must not stop those behind it. Telegram does not mind the case
        # of a method; written otherwise the library warns that it has a method of its own.
        found = await self._bot.do_api_request(
            "getupdates",
            api_kwargs={"offset": offset, "timeout": POLL_SECONDS, "allowed_updates": UPDATES},
            read_timeout=POLL_SECONDS + self._timeout_seconds,
        )
        return [update for update in found if isinstance(update, dict) and isinstance(update.get("update_id"), int)]

    async def _post(self, chat: int, place: Target, text: str, choices: Sequence[Choice], *, markup: bool) -> Any:
        return await self._bot.send_message(
            chat,
            text,
            parse_mode="MarkdownV2" if markup else None,
            message_thread_id=int(place.thread) if place.thread else None,
            reply_markup=_keyboard(choices),
            link_preview_options=LinkPreviewOptions(is_disabled=True),
        )

    async def _write(self, place: Target, call: Callable[[int], Awaitable[Any]]) -> Verdict:
        try:
            answer = await call(int(place.chat))
        except ChatMigrated as error:
            try:
                answer = await call(error.new_chat_id)
            except TelegramError as again:
                return judge(again)
        except TelegramError as error:
            return judge(error)
        except ValueError:
            return Verdict("failed", f"{place.chat[:64]!r} is no chat of Telegram")
        return Verdict("delivered", platform_message_id=str(getattr(answer, "message_id", "")))


def judge(error: TelegramError) -> Verdict:
    """Say what an answer of Telegram's that is no success means."""
    match error:
        case RetryAfter():
            after = error.retry_after
            seconds = after if isinstance(after, int | float) else after.total_seconds()
            return Verdict(
                "retry", "Telegram answered 429", retry_after_seconds=min(float(seconds), _MAX_RETRY_AFTER_SECONDS)
            )
        case InvalidToken():
            # What an administrator can put right while the answer waits.
            return Verdict("retry", "Telegram does not know the bot's token")
        case Forbidden() | BadRequest():
            return Verdict("failed", f"Telegram answered: {error.message[:200].lower()}")
        case TimedOut():
            return Verdict("retry", "Telegram did not answer in time")
        case NetworkError():
            return Verdict("retry", f"the connection to Telegram failed: {type(error.__cause__ or error).__name__}")
    return Verdict("retry", f"Telegram answered {type(error).__name__}")


def _keyboard(choices: Sequence[Choice]) -> InlineKeyboardMarkup | None:
    if not choices:
        return None
    return InlineKeyboardMarkup([[InlineKeyboardButton(one.label, callback_data=one.command)] for one in choices])
