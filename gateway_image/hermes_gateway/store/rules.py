"""What the store decides, apart from how it reads and writes: epochs, attempts, compactions, pages, deliveries. Pure."""

from __future__ import annotations

import hashlib
from base64 import b32encode
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.names import turn_id as turn_id
from hermes_contracts.store_api import SETTLED, CompactReply, CompactRequest, PutMediaRequest, TurnState

MAX_ATTEMPTS = 5
"""Lives of an agent that one message may end; then the message is given up."""
GIVEN_UP = (
    "I could not finish this message: I was interrupted every time I tried. "
    "It has been put aside for the people who run me; please send it again or say it differently."
)
REASON_ATTEMPTS = "too_many_attempts"
REASON_DELETED = "run_deleted"
_GIVEN_UP_BECAUSE = {
    "profile_gone": (
        "I could not answer this message: the agent it was for does not exist any more. "
        "Please ask the people who run me, or write to another agent."
    ),
    "not_routable": (
        "I could not answer this message: the place it was for is not served here any more. "
        "Please ask the people who run me."
    ),
    REASON_DELETED: "This scheduled run was deleted before it ended.",
    "not_started": (
        "I could not answer this message: I could not be started for a long time. "
        "Please ask the people who run me, and send it again when they have found out why."
    ),
    "suspended": (
        "I could not answer this message: I was suspended for a long time. "
        "Please send it again once the people who run me have resumed me."
    ),
}


def given_up(reason: str) -> str:
    """Return what the person reads when a message is given up for a reason of ours."""
    return _GIVEN_UP_BECAUSE.get(reason, GIVEN_UP)


def command_id(sid: str, account: str, update_id: str) -> str:
    """Derive the id of a command in the same way."""
    digest = hashlib.sha256("\0".join(("command", sid, account, update_id)).encode()).digest()
    return "k" + b32encode(digest).decode().lower()[:25]


@dataclass(frozen=True)
class DeliveryId:
    """`<sid>.<turn id>.<part>`, for the second target on `<sid>.<turn id>.<part>.<target>`; parts count from 1."""

    sid: str
    turn_id: str
    part: int
    target: int = 0

    def __str__(self) -> str:
        """Return the text that outbound messages carry."""
        text = f"{self.sid}.{self.turn_id}.{self.part}"
        return f"{text}.{self.target}" if self.target else text

    @classmethod
    def parse(cls, text: str) -> DeliveryId | None:
        """Read the text of an id; None when it is none."""
        tokens = text.split(".")
        numbers = tokens[2:]
        if len(numbers) not in (1, 2) or not all(n.isascii() and n.isdigit() and len(n) <= 6 for n in numbers):
            return None
        return cls(tokens[0], tokens[1], *map(int, numbers))


def require_epoch(session_epoch: int | None, sid: str, epoch: int) -> None:
    """Raise FENCED unless the caller's epoch is the session's; None: there is no such session (any more)."""
    if session_epoch is None:
        raise HermesError(ErrorCode.FENCED, f"session {sid} is not in the store (any more); epoch {epoch} is over")
    if session_epoch != epoch:
        raise HermesError(ErrorCode.FENCED, f"epoch {epoch} of session {sid} is over: current epoch is {session_epoch}")


class Opening(StrEnum):
    """What opening a turn means."""

    NEW = "new"
    REPEATED = "repeated"
    """The same life of the agent asks again: its answer was lost."""
    HANDED_BACK = "handed_back"
    """Its last holder gave it back in good order: no crash, no attempt counted."""
    RESUMED = "resumed"
    """Its last holder died: counts as an attempt."""
    GIVEN_UP = "given_up"
    SETTLED = "settled"


@dataclass(frozen=True)
class FoundTurn:
    """A turn's row, as far as opening it again depends on it."""

    state: TurnState
    attempt: int
    epoch: int
    ack_subject: str
    handed_back: bool


def decide_opening(found: FoundTurn | None, epoch: int, ack_subject: str) -> Opening:
    """Decide what a turn's opening means. Every delivery of a message has an ack subject of its own."""
    if found is None:
        return Opening.NEW
    if found.state in SETTLED:
        return Opening.SETTLED
    if found.handed_back:
        return Opening.HANDED_BACK
    if found.epoch == epoch and found.ack_subject == ack_subject:
        return Opening.REPEATED
    return Opening.RESUMED if found.attempt < MAX_ATTEMPTS else Opening.GIVEN_UP


def require_running(state: str | None, turn: str) -> None:
    """Raise unless a turn may be written to. FENCED when somebody else gave it up: its writer must stop."""
    if state is None:
        raise HermesError(ErrorCode.NOT_FOUND, f"turn {turn[:64]} was never opened in this session: open it first")
    if state == TurnState.DEAD:
        raise HermesError(ErrorCode.FENCED, f"turn {turn[:64]} was given up by the operator")
    if TurnState(state) in SETTLED:
        raise HermesError(ErrorCode.CONFLICT, f"turn {turn[:64]} is {state} already: open the next one")


@dataclass(frozen=True)
class FoundCompaction:
    """What a compaction found: the state of its turn or command, what its step had written, and the conversation.

    `done_number` and `done_sequence` are those of the compaction that this same step made before.
    """

    state: str | None
    turn_conversation: str | None
    step_written: int | None
    compactions: int | None
    done_number: int | None
    done_sequence: int | None


def decide_compaction(found: FoundCompaction, request: CompactRequest) -> CompactReply | None:
    """Return the first answer of a repeated call, None when it may be written, or raise what forbids it."""
    if found.done_number is not None and found.done_sequence is not None:
        return CompactReply(sequence=found.done_sequence, compactions=found.done_number)
    require_running(found.state, request.turn_id)
    if found.step_written is not None:
        raise HermesError(ErrorCode.CONFLICT, f"step {request.step} was appended already: compact as the next step")
    if found.turn_conversation not in (None, request.conversation):
        raise HermesError(ErrorCode.INVALID, f"compact: the turn is not one of conversation {request.conversation}")
    if found.compactions is None:
        raise HermesError(ErrorCode.NOT_FOUND, f"conversation {request.conversation} has no prompt yet: nothing to compact")
    if found.compactions != request.expected:
        raise HermesError(
            ErrorCode.CONFLICT,
            f"compact: expected {request.expected} compactions, but there were {found.compactions}: load the conversation",
        )
    return None


class PageWrite(StrEnum):
    """What a page of a medium means."""

    NOTHING = "nothing"
    """It is there already."""
    BEGIN = "begin"
    NEXT = "next"


@dataclass(frozen=True)
class FoundMedium:
    """A medium's row."""

    media_type: str
    total: int
    received: int


def decide_page(found: FoundMedium | None, request: PutMediaRequest, size: int) -> PageWrite:
    """Decide what a page of `size` bytes means. Raises CONFLICT when it does not follow what is there."""
    if found is not None and found.received == found.total:
        return PageWrite.NOTHING
    same = found is not None and (found.media_type, found.total) == (request.media_type, request.total)
    if found is not None and same and found.received > 0:
        if request.offset + size <= found.received:
            return PageWrite.NOTHING
        if request.offset == found.received:
            return PageWrite.NEXT
    if request.offset == 0:
        return PageWrite.BEGIN
    start = found.received if found is not None and same else 0
    raise HermesError(ErrorCode.CONFLICT, f"put_media: the page does not follow what is there: go on at offset {start}")


def require_room(taken: int, more: int, limit: int) -> None:
    """Raise TOO_LARGE when a session's media would exceed its limit (all in bytes)."""
    if taken + more > limit:
        raise HermesError(
            ErrorCode.TOO_LARGE,
            f"put_media: no room for more: the session holds {taken} bytes of pictures and files and may hold {limit}",
        )


DeliveryState = Literal["attempting", "delivered", "failed", "waiting", "unknown"]


@dataclass(frozen=True)
class FoundDelivery:
    """A part's row and the state of the part before it (None: it is the first)."""

    state: Literal["pending", "attempting", "delivered", "failed"]
    attempts: int
    holder: str
    previous: str | None


@dataclass(frozen=True)
class DeliveryStart:
    """`write` says whether the row changes; the rest is the answer."""

    proceed: bool
    state: DeliveryState
    attempts: int
    uncertain: bool = False
    write: bool = False


def decide_delivery(found: FoundDelivery | None, holder: str) -> DeliveryStart:
    """Decide whether a part may be sent now, and whether it may have been sent before without our knowing."""
    if found is None:
        return DeliveryStart(False, "unknown", 0)
    if found.state in ("delivered", "failed"):
        return DeliveryStart(False, found.state, found.attempts)
    if found.previous not in (None, "delivered"):
        return DeliveryStart(False, "waiting", found.attempts)
    if found.state == "attempting" and found.holder == holder:
        return DeliveryStart(True, "attempting", found.attempts)
    return DeliveryStart(True, "attempting", found.attempts + 1, uncertain=found.state == "attempting", write=True)
