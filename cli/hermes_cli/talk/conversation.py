"""One message and its turn: sent once whatever the network does, followed until its stored answer is there."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence

from hermes_cli.api.client import Api
from hermes_cli.api.sessions import answer_question, get_turn, post_message, retry
from hermes_cli.api.shapes import Session, Turn
from hermes_cli.api.watch import Watch, watching
from hermes_cli.errors import CliError, ExitCode, unreachable
from hermes_cli.talk.progress import Action, Progress

_PATIENCE_SECONDS = 120.0
_LOOK_SECONDS = 3.0
"""How long without an event until the store is asked: events may be lost, and a merged message has none."""

_PAUSE_SECONDS = 0.5

Show = Callable[[Action], None]


async def ask(api: Api, session: Session, text: str, images: Sequence[str], show: Show, *, deltas: bool = True) -> Turn:
    """Send a message, show its turn as it goes, and return how it ended. Raises CliError.

    The gateway may go away meanwhile, for two minutes at a time: the message has an Idempotency-Key, and the stream goes
    on after the last event that came. Cancelling leaves the turn running; `stop` ends it.
    """
    async with watching(api, session.id, deltas=deltas) as watch:
        key = secrets.token_hex(16)
        message_id = await post_message(api, session.id, text, images, key, patience_seconds=_PATIENCE_SECONDS)
        return await _follow(api, session.id, message_id, watch, show)


async def answer(api: Api, session: Session, decision: str, argument: str, show: Show, say: Callable[[str], None]) -> Turn:
    """Answer what the agent asked, and follow the turn that goes on with it. Raises CliError."""
    async with watching(api, session.id, deltas=True) as watch:
        text, message_id = await answer_question(api, session.id, decision, argument)
        say(text)
        return await _follow(api, session.id, message_id, watch, show)


async def ask_again(api: Api, session: Session, show: Show) -> Turn:
    """Have the last message done again, and follow its turn. Raises CliError."""
    async with watching(api, session.id, deltas=True) as watch:
        return await _follow(api, session.id, await retry(api, session.id, secrets.token_hex(16)), watch, show)


async def _follow(api: Api, sid: str, message_id: str, watch: Watch, show: Show) -> Turn:
    progress = Progress(message_id)
    heard = time.monotonic()
    while True:
        event = await watch.next(_LOOK_SECONDS)
        over = event is None
        if event is not None:
            heard = time.monotonic()
            actions, over = progress.take(event)
            for action in actions:
                show(action)
        if not over:
            continue
        turn = await _look(api, sid, message_id)
        if turn is not None and turn.settled:
            for action in progress.finish(turn):
                show(action)
            return turn
        if turn is not None:
            heard = time.monotonic()
        elif time.monotonic() - heard > _PATIENCE_SECONDS:
            what = f"the gateway has been away for {_PATIENCE_SECONDS:.0f} s; the turn goes on without us"
            raise unreachable(what, f"read its answer later with hermes sessions transcript {sid}")


async def _look(api: Api, sid: str, message_id: str) -> Turn | None:
    """Return what became of a message; None while the gateway cannot tell."""
    try:
        return await get_turn(api, sid, message_id)
    except CliError as error:
        if error.code is not ExitCode.UNREACHABLE:
            raise
        await asyncio.sleep(_PAUSE_SECONDS)
        return None
