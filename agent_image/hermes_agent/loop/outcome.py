"""How a turn ends: machine-readable, and as one sentence for the person."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from hermes_contracts.conversation import Message
from hermes_contracts.envelopes import Choice


class EndReason(StrEnum):
    """Goes into the turn row and the events."""

    STOP = "stop"
    LENGTH = "length"
    CUT_OFF = "cut_off"
    STOPPED_BY_USER = "stopped_by_user"
    TIME_LIMIT = "time_limit"
    ITERATION_LIMIT = "iteration_limit"
    TOKEN_LIMIT = "token_limit"
    COST_LIMIT = "cost_limit"
    BUDGET = "budget"
    STALLED = "stalled"
    REFUSED = "refused"
    EMPTY_ANSWER = "empty_answer"
    OUTPUT_LIMIT = "output_limit"
    MALFORMED_CALLS = "malformed_tool_calls"
    UNKNOWN_TOOLS = "unknown_tools"
    REPEATED_FAILURES = "repeated_failures"
    NO_PROGRESS = "no_progress"
    CONTEXT_OVERFLOW = "context_overflow"
    MODEL_ERROR = "model_error"
    ASKED = "asked"
    """A person was asked something; his answer is the next turn."""
    SILENT = "silent"
    """A scheduled run had nothing to say."""
    NOT_WOKEN = "not_woken"
    """Its script said that no model is needed."""
    SCRIPT_FAILED = "script_failed"
    RESTRICTION = "restriction"
    """It was to have tools that this agent has not."""
    PROGRAM_FAILED = "program_failed"
    """The program that the turn was handed to is missing, died or broke its protocol."""
    INTERNAL_ERROR = "internal_error"


@dataclass(frozen=True)
class Outcome:
    """What is committed."""

    outcome: Literal["done", "failed"]
    reason: EndReason
    reply: str
    message: str | None = None
    """The last message of the transcript, where that is not the whole reply."""
    silent: bool = False
    """Nobody is sent the reply: for scheduled runs."""
    choices: tuple[Choice, ...] = ()
    """What the person may press."""
    before: tuple[Message, ...] = ()
    """Rows that are written before the last one, in the same write."""


class TurnFailed(Exception):
    """The turn cannot go on; `outcome` says why."""

    def __init__(self, reason: EndReason, sentence: str) -> None:
        super().__init__(reason.value)
        self.outcome = Outcome("failed", reason, sentence)


REPLY_STOPPED = "Stopped."


def stalled_reply(seconds: float) -> str:
    """Say that nothing happened for too long."""
    return f"I stopped: nothing happened for {seconds:g} seconds. Please send the message again or ask me to go on."


def limit_reply(what: str) -> str:
    """Say which limit the turn reached, such as `90 steps`."""
    return f"I stopped: this turn reached its limit of {what}. Ask me to go on if you want me to continue."


INTERNAL_ERROR_REPLY = "Something went wrong inside the agent and this message was given up. Please send it again."
