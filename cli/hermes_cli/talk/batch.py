"""The conversation of a pipe: every line of stdin is a message or a command, one after the other."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TextIO

from hermes_cli.api.client import Api
from hermes_cli.api.shapes import Session
from hermes_cli.talk.chat import Chat
from hermes_cli.talk.screen import Screen


async def lines_of(stream: TextIO) -> AsyncIterator[str]:
    """Yield lines without their ends."""
    while line := await asyncio.to_thread(stream.readline):
        yield line.rstrip("\n")


async def converse(api: Api, session: Session, screen: Screen, lines: AsyncIterator[str]) -> Chat:
    """Take lines until they end, each once the answer to the one before is there.

    Ctrl-C stops the turn; when there is nothing to stop, or the second time, it ends the conversation with CancelledError.
    """
    async with asyncio.TaskGroup() as tasks:
        chat = Chat(api, session, screen, tasks)
        with _interrupts(chat):
            async for line in lines:
                if line.strip():
                    screen.asked(line)
                if not await chat.take(line):
                    break
                await chat.idle()
            await chat.leave()
    return chat


@contextmanager
def _interrupts(chat: Chat) -> Iterator[None]:
    me = asyncio.current_task()
    assert me is not None

    def on_signal() -> None:
        if not chat.interrupt():
            me.cancel()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
