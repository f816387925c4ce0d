"""How long a conversation is, and how long it may be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from weakref import WeakKeyDictionary

import structlog

from hermes_agent.compression.policy import Size
from hermes_agent.compression.sizes import message_tokens, text_tokens
from hermes_agent.loop.state import Turn
from hermes_agent.loop.transcript import Transcript
from hermes_contracts.conversation import Message
from hermes_contracts.errors import HermesError

log = structlog.get_logger()

WORTH_ASKING_TOKENS = 6_000
"""Shorter conversations fit any model; the first answer tells the window anyway."""
ASK_SECONDS = 3.0
ASK_AGAIN_SECONDS = 60.0


class Gauge:
    """Measures transcripts: what a provider counted, and an estimate of what came since."""

    def __init__(self, ask_window: Callable[[], Awaitable[int]]) -> None:
        self.window = 0
        """Tokens that the model can read, as last heard; 0 when nobody has said."""
        self._ask_window = ask_window
        self._ask_after = 0.0
        self._estimates: WeakKeyDictionary[Transcript, tuple[int, int, int]] = WeakKeyDictionary()

    def measured(self, transcript: Transcript, context_tokens: int, context_window: int) -> None:
        """Take what a provider said. The answer it counted is not in the transcript yet."""
        if context_tokens:
            transcript.context_tokens = context_tokens
            transcript.context_rows = len(transcript.messages) + 1
        if context_window:
            self.window = context_window

    def size(self, transcript: Transcript) -> Size:
        """Return a transcript's size with its prompt."""
        if transcript.context_tokens:
            since = transcript.messages[transcript.context_rows :]
            return Size(transcript.context_tokens + sum(map(_row_tokens, since)), counted=True)
        return Size(prompt_tokens(transcript) + self._estimate(transcript), counted=False)

    async def known_window(self, turn: Turn, size: Size) -> int:
        """Return the window in tokens, 0 when it is not known. Asks the models service where that may matter."""
        now = asyncio.get_running_loop().time()
        if self.window or size.tokens < WORTH_ASKING_TOKENS or now < self._ask_after:
            return self.window
        self._ask_after = now + ASK_AGAIN_SECONDS
        try:
            self.window = await turn.stop.race(self._asked())
        except (HermesError, TimeoutError) as error:
            log.warning("compression.window_unknown", error=type(error).__name__)
        return self.window

    async def _asked(self) -> int:
        async with asyncio.timeout(ASK_SECONDS):
            return await self._ask_window()

    def _estimate(self, transcript: Transcript) -> int:
        compactions, rows, tokens = self._estimates.get(transcript, (0, 0, 0))
        if compactions != transcript.compactions or rows > len(transcript.messages):
            rows = tokens = 0
        tokens += sum(map(_row_tokens, transcript.messages[rows:]))
        self._estimates[transcript] = (transcript.compactions, len(transcript.messages), tokens)
        return tokens


def prompt_tokens(transcript: Transcript) -> int:
    """Estimate the tokens of system prompt and tools."""
    return text_tokens(transcript.system.decode()) + text_tokens(transcript.tools.decode())


def _row_tokens(row: bytes) -> int:
    return message_tokens(Message.model_validate_json(row))
