"""Shows answers while they are written: one message of the chat, edited as the turn goes on.

Whoever delivers a session's partition shows its previews, too, so that the last edit is the answer. Which message it is
stands in a bucket before and after it is posted: a gateway that dies leaves a message that the next one makes the answer.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.errors import KeyNotFoundError
from nats.js.kv import KeyValue
from pydantic import ValidationError

from hermes_contracts import names, subjects
from hermes_contracts.envelopes import Inbound, Outbound, Preview, Target
from hermes_gateway.gateway.delivery.chats import Chats
from hermes_gateway.gateway.delivery.growing import GrowingAnswer
from hermes_gateway.gateway.hub import Heard, Listener, SubjectHub
from hermes_gateway.gateway.turns import answer_of_event, parse_delta, parse_event

log = structlog.get_logger()

_POSTING = "?"
"""In the bucket while a message is being posted: its id is not known yet."""
_LONGEST_SECONDS = 3600.0
_LOOK_SECONDS = 1.0
_MAX_AT_ONCE = 500
_SHOWN_CHARACTERS = 3_000
_TYPING_SECONDS = 4.0
"""Between signs that somebody writes, until there is something to read."""


@dataclass
class _Shown:
    """A preview on its way."""

    place: Target
    turn_id: str
    sid: str
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    listener: Listener | None = None
    message_id: str = ""
    last: str = ""

    def end(self) -> None:
        """Have it end before anything else happens to the turn."""
        self.stop.set()
        if self.listener is not None:
            self.listener.offer(Heard("", b""))

    @property
    def name(self) -> str:
        return entry_name(self.sid, self.turn_id)


def entry_name(sid: str, turn_id: str) -> str:
    """Return the name of a turn's entry in the bucket."""
    return f"{sid}-{turn_id}"


class PreviewRecords:
    """The bucket. When it does not answer, there is no preview."""

    def __init__(self, js: JetStreamContext) -> None:
        self._js = js
        self._bucket: KeyValue | None = None

    async def put(self, name: str, message_id: str) -> bool:
        """Write an entry; False when it could not be written."""
        try:
            await (await self._open()).put(name, message_id.encode())
        except (NatsError, TimeoutError) as error:
            log.info("previews.not_recorded", error=str(error)[:200] or type(error).__name__)
            return False
        return True

    async def get(self, name: str) -> str | None:
        """Return an entry: a message's id, `?`, or None when there is none. Raises NatsError or TimeoutError."""
        try:
            return ((await (await self._open()).get(name)).value or b"").decode()
        except KeyNotFoundError:
            return None

    async def _open(self) -> KeyValue:
        if self._bucket is None:
            self._bucket = await self._js.key_value(subjects.PREVIEWS_BUCKET)
        return self._bucket


class Previews:
    """The previews of the partitions that this replica delivers."""

    def __init__(self, bus: Client, hub: SubjectHub, records: PreviewRecords, chats: Chats) -> None:
        self._bus = bus
        self._hub = hub
        self._records = records
        self._chats = chats
        self._shown: dict[str, _Shown] = {}

    async def announce(self, inbound: Inbound) -> None:
        """Tell whoever delivers for a session that somebody waits. May be lost: then the answer comes at once."""
        subject = subjects.preview(subjects.out_partition(inbound.sid))
        try:
            await self._bus.publish(subject, Preview(inbound=_without_text(inbound)).model_dump_json().encode())
        except NatsError as error:
            log.info("previews.not_announced", error=str(error)[:200])

    async def follow(self, partition: int, finish: asyncio.Event) -> None:
        """Show previews of a partition until asked to finish."""
        messages: asyncio.Queue[Msg] = asyncio.Queue(1000)

        async def receive(message: Msg) -> None:
            if not messages.full():
                messages.put_nowait(message)

        subscription = await self._bus.subscribe(subjects.preview(partition), cb=receive)
        mine: list[_Shown] = []
        try:
            async with asyncio.TaskGroup() as group:
                while not finish.is_set():
                    try:
                        async with asyncio.timeout(_LOOK_SECONDS):
                            message = await messages.get()
                    except TimeoutError:
                        mine = [shown for shown in mine if not shown.ended.is_set()]
                        continue
                    begun = self._begin(message)
                    if begun is not None:
                        mine.append(begun)
                        group.create_task(self._show(begun))
                for shown in mine:
                    shown.end()
        finally:
            if not self._bus.is_closed:
                await subscription.unsubscribe()

    async def end(self, outbound: Outbound) -> None:
        """End a turn's preview here; nothing writes to its message afterwards."""
        shown = self._shown.get(entry_name(outbound.sid, outbound.turn_id))
        if shown is not None:
            shown.end()
            await shown.ended.wait()

    async def message_of(self, outbound: Outbound) -> str | None:
        """Return the id of the message that shows a turn, `?` when it may have one, None when it has none.

        Raises NatsError or TimeoutError when nobody can tell.
        """
        return await self._records.get(entry_name(outbound.sid, outbound.turn_id))

    def _begin(self, message: Msg) -> _Shown | None:
        try:
            inbound = Preview.model_validate_json(message.data).inbound
        except ValidationError:
            return None
        if inbound.reply_to is None or inbound.channel not in self._chats or len(self._shown) >= _MAX_AT_ONCE:
            return None
        turn_id = names.turn_id(inbound.sid, inbound.channel, inbound.account, inbound.update_id)
        shown = _Shown(inbound.reply_to, turn_id, inbound.sid)
        if shown.name in self._shown:
            return None
        self._shown[shown.name] = shown
        return shown

    async def _show(self, shown: _Shown) -> None:
        try:
            listener = await self._hub.listen(subjects.event(shown.sid), subjects.deltas_of(shown.sid))
            shown.listener = listener
            try:
                # What somebody else began to show is left to the answer.
                if await self._records.get(shown.name) is None:
                    await self._grow(shown, listener)
            finally:
                await listener.close()
        except (NatsError, TimeoutError) as error:
            log.info("previews.ended", error=str(error)[:200] or type(error).__name__)
        finally:
            shown.ended.set()
            del self._shown[shown.name]

    async def _grow(self, shown: _Shown, listener: Listener) -> None:
        """Follow a turn until it ends. Writes are never cut off, so that nothing lands after the answer."""
        answer, deadline = GrowingAnswer(_SHOWN_CHARACTERS), time.monotonic() + _LONGEST_SECONDS
        channel, pace = self._chats[shown.place.channel].channel, self._chats[shown.place.channel].pace
        typed_at = -_TYPING_SECONDS
        while not shown.stop.is_set() and time.monotonic() < deadline:
            if not shown.message_id and time.monotonic() - typed_at >= _TYPING_SECONDS:
                typed_at = time.monotonic()
                await channel.typing(shown.place)
            pause = min(_LOOK_SECONDS, max(0.05, pace.seconds_left(shown.place)))
            try:
                async with asyncio.timeout(pause):
                    heard = await listener.queue.get()
            except TimeoutError:
                pass
            else:
                if heard.subject == subjects.event(shown.sid):
                    if await self._ends(shown, heard.data):
                        return
                elif (delta := parse_delta(heard.data)) is not None and delta.turn_id == shown.turn_id:
                    answer.take(delta)
            text = answer.shown()
            due = text and text != shown.last and pace.seconds_left(shown.place) <= 0 and not shown.stop.is_set()
            if due and not await self._write(shown, text):
                return

    async def _ends(self, shown: _Shown, data: bytes) -> bool:
        """Tell whether an event ends the turn; what was shown of an empty answer is taken away."""
        event = parse_event(data)
        if event is None or event.turn_id != shown.turn_id or not event.type.startswith("turn."):
            return False
        found = answer_of_event(event)
        if found is not None and not found.reply.strip() and shown.message_id:
            await self._chats[shown.place.channel].channel.delete(shown.place, shown.message_id)
        return event.type != "turn.started"

    async def _write(self, shown: _Shown, text: str) -> bool:
        """Post or edit; False when this preview had better end."""
        channel, pace = self._chats[shown.place.channel].channel, self._chats[shown.place.channel].pace
        await pace.wait(shown.place)
        rendered = channel.render(text)
        if not shown.message_id:
            if not await self._records.put(shown.name, _POSTING):
                return False
            verdict = await channel.send(shown.place, rendered, f"{shown.sid}.{shown.turn_id}.1")
            shown.message_id = verdict.platform_message_id
            if verdict.outcome != "delivered" or not await self._records.put(shown.name, shown.message_id):
                return False
        else:
            verdict = await channel.edit(shown.place, shown.message_id, rendered)
        if verdict.outcome == "retry":
            pace.penalise(shown.place, verdict.retry_after_seconds or 5.0)
        shown.last = text
        return verdict.outcome != "failed"


def _without_text(inbound: Inbound) -> Inbound:
    return inbound.model_copy(update={"text": "", "instructions": "", "images": ()})
