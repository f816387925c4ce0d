"""What happens to a verified chat message, whichever platform it came from: right, command or message, the bus."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from hermes_contracts.access import ChatAccount
from hermes_contracts.envelopes import MAX_TEXT_CHARACTERS, Inbound, Route, Target
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import RoutingKey
from hermes_gateway.gateway import metrics
from hermes_gateway.gateway.channels.attachments import read_attachments
from hermes_gateway.gateway.channels.base import ChatMessage, Pressed
from hermes_gateway.gateway.channels.command_answers import CommandAnswers
from hermes_gateway.gateway.channels.commands import Asked, NoCommand, parse_command
from hermes_gateway.gateway.channels.routing import place_in_session, reached_as
from hermes_gateway.gateway.delivery.chats import Chats
from hermes_gateway.gateway.delivery.previews import Previews
from hermes_gateway.gateway.ingest import Ingest, route_to
from hermes_gateway.gateway.people.authorize import Grants, Right, decide_right, sentence_for_strangers
from hermes_gateway.gateway.people.choosing import offered
from hermes_gateway.gateway.people.command_rights import commands_for, only_his_own, permit
from hermes_gateway.gateway.people.places import Place, place_of
from hermes_gateway.gateway.profiles import ProfileCache

log = structlog.get_logger()

_ASIDES_WAITING = 1000
_ASIDES_AT_ONCE = 16
_STRANGER_SECONDS = 3600.0
_CODE_SECONDS = 600.0
"""After that a stranger may ask for another code."""
_REMEMBERED = 10_000
_LATER = frozenset({ErrorCode.UNAVAILABLE, ErrorCode.TIMEOUT})
_COMES = "Noted. The answer comes here."
_NOT_SENT = "I took the exchange back, but could not send its message again. Write it once more, please:\n\n{text}"
_QUOTED = 1_500
_EMPTY = "Write what you want me to do behind my name. `/help` shows what else you can say."


@dataclass(frozen=True)
class _Aside:
    place: Target
    text: str
    pressed: Pressed | None = None


class Pipeline:
    """One for all channels. A message is taken when it is on the bus, a command when what it changes is on disk."""

    def __init__(
        self,
        profiles: ProfileCache,
        ingest: Ingest,
        answers: CommandAnswers,
        previews: Previews,
        chats: Chats,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._profiles = profiles
        self._ingest = ingest
        self._conversations = answers.conversations
        self._store = answers.store
        self._answers = answers
        self._previews = previews
        self._chats = chats
        self._clock = clock
        self._asides: asyncio.Queue[_Aside] = asyncio.Queue(_ASIDES_WAITING)
        self._told: OrderedDict[tuple[str, str], float] = OrderedDict()
        """When strangers were told so, by account and person."""
        self._answered: OrderedDict[tuple[str, str], None] = OrderedDict()
        """Messages that were answered beside: the platform may send one again."""

    async def run(self) -> None:
        """Say what is said beside answers, for ever. It is not recorded: what a gateway has not said, it never says."""
        slots = asyncio.Semaphore(_ASIDES_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            while True:
                aside = await self._asides.get()
                await slots.acquire()
                task = group.create_task(self._say(aside))
                task.add_done_callback(lambda _: slots.release())

    async def take(self, message: ChatMessage, account: ChatAccount, traceparent: str) -> None:
        """Take a message. Raises HermesError when it is not taken: the platform sends it again.

        What would fail again in the same way counts as taken, and the person is told: one person's message must not keep
        back those of all who write to the same bot.
        """
        try:
            await self._take(message, account, traceparent)
        except HermesError as error:
            if error.retryable or error.code in _LATER:
                raise
            log.warning("pipeline.refused", channel=message.channel, account=account.name, code=error.code.value)
            self._aside(message, f"I could not take that: {error.message}.")

    async def _take(self, message: ChatMessage, account: ChatAccount, traceparent: str) -> None:
        place = self._place(message, account)
        if not await self._may(message, account, place):
            await self._tell_stranger(message, account, place)
            return
        allowed = commands_for(account, message, place)
        asked = permit(parse_command(message.text), allowed)
        if isinstance(asked, NoCommand):
            # The buttons stay for somebody who may press them.
            self._aside(replace(message, pressed=None), asked.sentence)
        elif isinstance(asked, Asked):
            said = await self._obey(asked, message, account, place, traceparent)
            if said:
                self._aside(message, said)
        else:
            await self._publish(message, await self._route(message, account, place), traceparent)

    async def take_command(self, message: ChatMessage, account: ChatAccount, traceparent: str) -> str:
        """Take a command whose answer the platform waits for. Raises HermesError: nothing was done, or nobody knows."""
        place = self._place(message, account)
        if not await self._may(message, account, place):
            return await self._word_to_stranger(message, account, place) or "You may not use this agent."
        asked = permit(parse_command(message.text), commands_for(account, message, place))
        if isinstance(asked, NoCommand):
            return asked.sentence
        if isinstance(asked, Asked):
            return await self._obey(asked, message, account, place, traceparent) or _COMES
        await self._publish(message, await self._route(message, account, place), traceparent)
        return _COMES

    async def _obey(self, asked: Asked, message: ChatMessage, account: ChatAccount, place: Place, traceparent: str) -> str:
        """Carry a command out and return what to say; empty when that is the agent's to say, in a turn."""
        if asked.spec.name == "profile":
            # Before there is a route: the way out of a Profile that cannot be used now.
            _, key = await self._reached(message, account)
            may = offered(account, message, place, self._profiles.get)
            return await self._answers.choices.answer(asked.argument, account.namespace, key, may)
        route, allowed = await self._route(message, account, place), commands_for(account, message, place)
        match asked.spec.name:
            case "queue":
                await self._publish(replace(message, text=asked.argument), route, traceparent)
                return ""
            case "retry":
                return await self._retry(message, route, traceparent, own_only=only_his_own(message, route, allowed))
        return await self._answers.answer(asked, message, route, allowed)

    async def _retry(self, message: ChatMessage, route: Route, traceparent: str, *, own_only: bool) -> str:
        again = await self._answers.talk.retry(message, route, own_only=own_only)
        if isinstance(again, str):
            return again
        try:
            await self._post(route, again, traceparent)
        except HermesError as error:
            if not message.said_once:
                raise  # the message comes again, and with it the same exchange
            log.warning("pipeline.retry_lost", channel=message.channel, code=error.code.value)
            return _NOT_SENT.format(text=again.text[:_QUOTED])
        return ""

    def _place(self, message: ChatMessage, account: ChatAccount) -> Place:
        if not self._profiles.synced:
            # What no Profile says is allowed, so nothing is decided before all have been read.
            away = "the Profiles are not known yet; try again"
            raise HermesError(ErrorCode.UNAVAILABLE, away, retryable=True, retry_after_seconds=2.0)
        return place_of(account, message, self._profiles.get)

    async def _may(self, message: ChatMessage, account: ChatAccount, place: Place) -> bool:
        grants = Grants.of(account)
        right = decide_right(grants, message, None, place=place)
        guest: bool | None = None
        if right is Right.ASK_IF_GUEST:
            guest = await self._chats[message.channel].channel.is_guest(message)
            right = decide_right(grants, message, guest, place=place)
        if right is Right.ASK_IF_PAIRED:
            right = decide_right(grants, message, guest, await self._answers.pairing.paired(message), place)
        if right is Right.DENIED:
            metrics.STRANGERS.labels(message.channel).inc()
            log.info("people.denied", channel=message.channel, account=account.name, user=message.user)
        return right is not Right.DENIED

    async def _reached(self, message: ChatMessage, account: ChatAccount) -> tuple[str, RoutingKey]:
        scope = account.session_scope
        link = await self._answers.linking.reached(account.namespace, message) if scope == "User" else None
        return reached_as(message, scope, link)

    async def _route(self, message: ChatMessage, account: ChatAccount, place: Place) -> Route:
        owner, key = await self._reached(message, account)
        may = offered(account, message, place, self._profiles.get)
        name = await self._answers.choices.chosen(account.namespace, key, may)
        profile = self._profiles.get(account.namespace, name)
        if profile is None or not profile.ready:
            why = "is not ready" if profile is not None else "is not known (yet)"
            if name != account.profile:
                # The account's other people need not wait for it.
                back = f"`/profile {may[0]}` leads back" if may[0] != name else "try again later"
                raise HermesError(ErrorCode.CONFLICT, f"the agent `{name}` {why}; {back}")
            raise HermesError(
                ErrorCode.UNAVAILABLE,
                f"the Profile {name} of this account {why}",
                retryable=True,
                retry_after_seconds=10.0,
            )
        return route_to(profile, owner, key)

    async def _publish(self, message: ChatMessage, route: Route, traceparent: str) -> None:
        if not message.text.strip() and not message.attachments:
            self._aside(message, _EMPTY)
            return
        files = await read_attachments(self._chats[message.channel].channel, self._store, route.sid, message)
        if files.remark:
            self._aside(message, files.remark)
        inbound = Inbound(
            sid=route.sid,
            conversation=await self._conversations.current(route.sid, place_in_session(message)),
            channel=message.channel,
            account=message.account,
            update_id=message.update_id,
            owner=route.owner,
            # In a session of one's own the agent knows who speaks.
            sender="" if route.key.user else message.user,
            text="\n\n".join(text for text in (message.text, files.text) if text)[:MAX_TEXT_CHARACTERS],
            images=files.images,
            received_at=time.time(),
            reply_to=message.place,
        )
        await self._post(route, inbound, traceparent)

    async def _post(self, route: Route, inbound: Inbound, traceparent: str) -> None:
        # Before the message: whoever shows the answer listens from its first word.
        await self._previews.announce(inbound)
        await self._ingest.publish(route, inbound, traceparent)

    async def _word_to_stranger(self, message: ChatMessage, account: ChatAccount, place: Place) -> str:
        sentence = sentence_for_strangers(message)
        # A code that the Profile would not honour would be approved in vain.
        offers = sentence and account.pairing and place.admits(message.user)
        return await self._answers.pairing.offer(message, account) if offers else sentence

    async def _tell_stranger(self, message: ChatMessage, account: ChatAccount, place: Place) -> None:
        """Tell a stranger once in a while: somebody who writes all day need not fill our time."""
        key, now = (message.account, message.user), self._clock()
        quiet = _CODE_SECONDS if account.pairing else _STRANGER_SECONDS
        if now - self._told.get(key, -quiet) < quiet:
            return
        sentence = await self._word_to_stranger(message, account, place)
        if not sentence:
            return
        self._told[key] = now
        self._told.move_to_end(key)
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        self._aside(message, sentence)

    def _aside(self, message: ChatMessage, text: str) -> None:
        key = (message.account, message.update_id)
        if key in self._answered:
            return
        self._answered[key] = None
        if len(self._answered) > _REMEMBERED:
            self._answered.popitem(last=False)
        try:
            self._asides.put_nowait(_Aside(message.place, text, message.pressed))
        except asyncio.QueueFull:
            log.warning("pipeline.aside_dropped", channel=message.channel)

    async def _say(self, aside: _Aside) -> None:
        chat = self._chats[aside.place.channel]
        await chat.pace.wait(aside.place)
        said = chat.channel.render(aside.text)
        if aside.pressed is not None:
            # Whoever reads the chat sees what was decided where it was asked, and no button that does nothing any more.
            text = f"{aside.pressed.text}\n\n{said}"
            if (await chat.channel.edit(aside.place, aside.pressed.message_id, text)).outcome == "delivered":
                return
        verdict = await chat.channel.send(aside.place, said, "")
        if verdict.outcome != "delivered":
            log.info("pipeline.aside_lost", channel=aside.place.channel, error=verdict.error)
