"""What the store decides, apart from how it reads and writes: epochs, attempts, deliveries. Pure."""

from __future__ import annotations

import hashlib
from base64 import b32encode
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import SETTLED, TurnState

MAX_ATTEMPTS = 5
"""Lives of an agent that one message may end; then the message is given up."""
GIVEN_UP = (
    "I could not finish this message: I was interrupted every time I tried. "
    "It has been put aside for the people who run me; please send it again or say it differently."
)
REASON_ATTEMPTS = "too_many_attempts"


def turn_id(sid: str, channel: str, account: str, update_id: str) -> str:
    """Derive the id of a turn from what the platform calls its message: the same message is the same turn."""
    digest = hashlib.sha256("\0".join(("turn", sid, channel, account, update_id)).encode()).digest()
    return "t" + b32encode(digest).decode().lower()[:25]


def command_id(sid: str, account: str, update_id: str) -> str:
    """Derive the id of a command in the same way."""
    digest = hashlib.sha256("\0".join(("command", sid, account, update_id)).encode()).digest()
    return "k" + b32encode(digest).decode().lower()[:25]


@dataclass(frozen=True)
class DeliveryId:
    """`<sid>.<turn id>.<part>`; parts count from 1."""

    sid: str
    turn_id: str
    part: int

    def __str__(self) -> str:
        """Return the text that outbound messages carry."""
        return f"{self.sid}.{self.turn_id}.{self.part}"

    @classmethod
    def parse(cls, text: str) -> DeliveryId | None:
        """Read the text of an id; None when it is none."""
        tokens = text.split(".")
        if len(tokens) != 3 or not (tokens[2].isascii() and tokens[2].isdigit()) or len(tokens[2]) > 6:
            return None
        return cls(tokens[0], tokens[1], int(tokens[2]))


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
