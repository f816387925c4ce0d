"""Where an answer goes: what the stored message and the session's key say, never what an agent says. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_contracts import subjects
from hermes_contracts.envelopes import Choice, CronRun, Outbound, OutFile, Target
from hermes_contracts.names import CRON_CHANNEL, RoutingKey
from hermes_gateway.store.answers import is_delivered, split_reply
from hermes_gateway.store.outbox import OutboxRow, TurnFacts
from hermes_gateway.store.rules import DeliveryId
from hermes_service import tracing


@dataclass(frozen=True)
class KnownTurn:
    """What never changes about a turn: its facts, the channel it came by, and whose session it is in."""

    facts: TurnFacts
    channel: str
    key: RoutingKey
    namespace: str
    run: CronRun | None = None
    """Set when the clock sent its message."""
    reply_to: Target | None = None
    """Chat that the stored message names, where the session's key names none."""
    deliver: tuple[Target, ...] = ()
    """Chats that the stored message names instead of its own."""


@dataclass(frozen=True)
class Parts:
    """An answer on its way: messages to publish, and how many parts each target gets."""

    rows: tuple[OutboxRow, ...] = ()
    targets: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()

    def values(self) -> dict[str, object]:
        """Return the arguments of `deliveries.EXPECT_DELIVERIES`."""
        return {"targets": list(self.targets), "counts": list(self.counts)}


def places(turn: KnownTurn) -> list[Target]:
    """Return where a turn's answer goes, each place once.

    A message is answered where it came from. A scheduled run is answered where its job says, and without that in the chat
    whose conversation it continues; in a session of its own there is none.
    """
    if turn.run is None:
        return list(dict.fromkeys(turn.deliver)) or [turn.reply_to or _chat_of(turn.channel, turn.facts.account, turn.key)]
    if turn.run.deliver:
        return list(dict.fromkeys(turn.run.deliver))
    return [] if turn.key.channel == CRON_CHANNEL else [_chat_of(turn.key.channel, turn.key.account, turn.key)]


def _chat_of(channel: str, account: str, key: RoutingKey) -> Target:
    return Target.model_construct(channel=channel, account=account, chat=key.chat, thread=key.thread)


def parts_of(turn: KnownTurn, reply: str, choices: tuple[Choice, ...] = (), files: tuple[OutFile, ...] = ()) -> Parts:
    """Split an answer for every place that it goes to: texts, the choices below the last of them, then each file."""
    rows: list[OutboxRow] = []
    targets: list[int] = []
    counts: list[int] = []
    for number, place in enumerate(places(turn)):
        if not is_delivered(place.channel):
            continue
        texts = split_reply(place.channel, reply)
        pieces = [_Piece(text, choices if part == len(texts) else ()) for part, text in enumerate(texts, 1)]
        pieces += [_Piece(file.caption, file=file) for file in files]
        if pieces:
            targets.append(number)
            counts.append(len(pieces))
            rows += [_row(turn, place, number, (part, len(pieces)), piece) for part, piece in enumerate(pieces, 1)]
    return Parts(tuple(rows), tuple(targets), tuple(counts))


@dataclass(frozen=True)
class _Piece:
    text: str
    choices: tuple[Choice, ...] = ()
    file: OutFile | None = None


def _row(turn: KnownTurn, place: Target, target: int, numbers: tuple[int, int], piece: _Piece) -> OutboxRow:
    facts, (part, parts) = turn.facts, numbers
    outbound = Outbound(
        delivery_id=str(DeliveryId(facts.sid, facts.turn_id, part, target)),
        sid=facts.sid,
        turn_id=facts.turn_id,
        part=part,
        parts=parts,
        channel=place.channel,
        account=place.account,
        chat=place.chat,
        thread=place.thread,
        text=piece.text,
        target=target,
        namespace=turn.namespace,
        traceparent=tracing.current(),
        choices=piece.choices,
        file=piece.file,
    )
    return OutboxRow(subjects.outbound(place.channel, facts.sid), outbound.model_dump_json(), True)
