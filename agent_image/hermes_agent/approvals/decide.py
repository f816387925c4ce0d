"""What is to become of a command, from the Profile's rules and the patterns. Pure; the order is the original's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from hermes_agent.approvals.normalise import Command, Reading, read
from hermes_agent.approvals.patterns import ASK, FLOOR, SUDO, Pattern
from hermes_contracts.agent_config import ApprovalsConfig

UNREADABLE = "is nested too deeply or too long to be read: save it as a script and run the script"


class Verdict(StrEnum):
    """What happens next."""

    RUN = "run"
    REFUSE = "refuse"
    ASK = "ask"
    JUDGE = "judge"
    """A model looks first."""


@dataclass(frozen=True)
class Decision:
    """A verdict and why, as what follows "this"."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()


RUN = Decision(Verdict.RUN)


def decide(command: str, rules: ApprovalsConfig, *, attended: bool) -> Decision:
    """Decide about one command line.

    What never runs, then the Profile's deny globs, whatever the mode. Then the mode: an isolated sandbox and `off` ask
    nobody. Then what is dangerous: without a person there it is refused, otherwise judged or asked about.
    """
    reading = read(command)
    if not reading.readable and len(command) > 10_000:
        return Decision(Verdict.REFUSE, (UNREADABLE,))
    never = _matches(reading, FLOOR)
    if never:
        return Decision(Verdict.REFUSE, never)
    denied = denied_by(reading, rules.deny)
    if denied is not None:
        return Decision(Verdict.REFUSE, (f"is forbidden here by the rule {denied!r}",))
    if rules.mode in ("isolated", "off"):
        return RUN
    dangers = (*_matches(reading, ASK), *_elevated(reading))
    if not reading.readable:
        dangers = (*dangers, "cannot be read")
    if not dangers:
        return RUN
    if not attended:
        if rules.unattended == "approve":
            return RUN
        return Decision(Verdict.REFUSE, (*dangers, "and nobody is there to be asked"))
    return Decision(Verdict.JUDGE if rules.mode == "smart" else Verdict.ASK, dangers)


def denied_by(reading: Reading, globs: tuple[str, ...]) -> str | None:
    """Return the first glob that the whole line, or one command in it, matches."""
    texts = [re.sub(r"\s+", " ", reading.text).strip(), *(command.text for command in reading.commands)]
    return next((glob for glob in globs if any(fnmatchcase(text, glob) for text in texts)), None)


def _matches(reading: Reading, patterns: tuple[Pattern, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(pattern.why for pattern in patterns if _found(pattern, reading)))


def _found(pattern: Pattern, reading: Reading) -> bool:
    if pattern.whole:
        return pattern.search.search(reading.text) is not None
    return any(pattern.search.search(command.text) for command in reading.commands)


def _elevated(reading: Reading) -> tuple[str, ...]:
    def is_elevated(command: Command) -> bool:
        return bool({"sudo", "doas", "su"} & {*command.wrappers, command.name})

    return (SUDO.why,) if any(is_elevated(command) for command in reading.commands) else ()
