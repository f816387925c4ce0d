"""The gate that every tool call passes: runs, is refused, or is put to a person and left until he answers."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hermes_agent.approvals.judge import Judge, Opinion
from hermes_agent.store_port import Store
from hermes_contracts.agent_config import ApprovalsConfig
from hermes_contracts.conversation import ToolCallPart
from hermes_contracts.envelopes import MAX_CHOICES, Choice, Inbound
from hermes_contracts.errors import ErrorCode, HermesError
from hermes_contracts.store_api import ASK_APPROVAL, AskApprovalRequest
from hermes_contracts.store_api.approvals import MAX_ARGUMENTS_CHARACTERS

UNATTENDED_CHANNELS = frozenset({"cron", "webhook", "object"})
QUESTION_SECONDS = 2_592_000
_SHOWN_CHARACTERS = 1_500
_REFUSED = "Not run: this {why}. Do not try it in another form; find another way or tell the user."
_JUDGED = "Not run: it was judged unsafe, because it {why}. Do not try it in another form; tell the user what you need."
_WAITS = (
    "Not run yet: this {why}, so the user is asked to approve it (id {id}, until {until} UTC; silence means no). "
    "When he approves it, it runs by itself and you see the result. Do not try it in another form."
)
NOBODY = "Not asked: nobody is there to answer. Decide yourself, or say in your answer what you need to know."
_ASKED = "The user was asked (id {id}). His answer comes as his next message."


@dataclass(frozen=True)
class Asked:
    """What a person is asked, in his words, and what he may press."""

    text: str
    choices: tuple[Choice, ...]


@dataclass
class _Now:
    turn_id: str
    conversation: str
    attended: bool
    approved: str = ""
    """Hash of the call that a person has approved for this turn."""


class Gate:
    """One session's gate. Between `open` and its end it belongs to one turn."""

    def __init__(self, store: Store, rules: ApprovalsConfig, judge: Judge | None = None) -> None:
        self._store = store
        self._rules = rules
        self._judge = judge
        self._now: _Now | None = None
        self._asked: list[Asked] = []

    @contextmanager
    def open(self, turn_id: str, inbound: Inbound | None) -> Iterator[None]:
        """Belong to a turn meanwhile."""
        attended = inbound is not None and inbound.run is None and inbound.channel not in UNATTENDED_CHANNELS
        self._now = _Now(turn_id, inbound.conversation if inbound else "", attended)
        self._asked.clear()
        try:
            yield
        finally:
            self._now = None
            self._asked.clear()

    def approve(self, tool: str, arguments: str) -> None:
        """Let exactly this call run in this turn: a person has said so."""
        if self._now is not None:
            self._now.approved = call_hash(tool, arguments)

    def take_asked(self) -> tuple[Asked, ...]:
        """Take what the person is to be asked."""
        asked = tuple(self._asked)
        self._asked.clear()
        return asked

    async def admit(self, part: ToolCallPart, command: str) -> str | None:
        """Return None when the call may run, else what the model is told. Raises HermesError of the store's."""
        now = self._now
        if not command or now is None:
            return None
        from hermes_agent.approvals.decide import Verdict, decide  # loaded with the first command: start-up does not pay

        decision = decide(command, self._rules, attended=now.attended)
        why = ", ".join(decision.reasons)
        if decision.verdict is Verdict.REFUSE:
            return _REFUSED.format(why=why)
        digest = call_hash(part.name, part.arguments)
        if decision.verdict is Verdict.RUN or digest == now.approved:
            return None
        if decision.verdict is Verdict.JUDGE and self._judge is not None:
            opinion = await self._judge.judge(command, decision.reasons, now.turn_id, now.conversation)
            if opinion is not Opinion.ESCALATE:
                return None if opinion is Opinion.APPROVE else _JUDGED.format(why=why)
        question = f"May I run this? It {why}.\n\n{shown(command)}"
        return await self._put(now, part, digest, question, why)

    async def _put(self, now: _Now, part: ToolCallPart, digest: str, question: str, why: str) -> str | None:
        if len(part.arguments) > MAX_ARGUMENTS_CHARACTERS:
            return _REFUSED.format(why=f"{why}, and is too long to be shown to anybody: save it as a file first")
        request = AskApprovalRequest(
            turn_id=now.turn_id,
            call_id=part.id,
            kind="call",
            tool=part.name,
            arguments=part.arguments,
            call_hash=digest,
            question=question,
            timeout_seconds=self._rules.timeout_seconds,
        )
        try:
            reply = await self._store.call(ASK_APPROVAL, request)
        except HermesError as error:
            if error.code is not ErrorCode.CONFLICT:
                raise
            return f"Not run: {error.message}. Tell the user to answer them first."
        if reply.allowed:
            return None
        self._asked.append(Asked(question, approval_choices(reply.approval_id)))
        until = time.strftime("%Y-%m-%d %H:%M", time.gmtime(reply.deadline))
        return _WAITS.format(why=why, id=reply.approval_id, until=until)

    async def ask(self, call_id: str, question: str, options: tuple[str, ...]) -> str:
        """Put a question of the model's; return what the model is told. Raises HermesError of the store's."""
        now = self._now
        if now is None or not now.attended:
            return NOBODY
        request = AskApprovalRequest(
            turn_id=now.turn_id,
            call_id=call_id,
            kind="question",
            tool="clarify",
            call_hash=call_hash("clarify", question),
            question=question,
            options=options,
            timeout_seconds=QUESTION_SECONDS,
        )
        reply = await self._store.call(ASK_APPROVAL, request)
        lines = [f"{number}. {option}" for number, option in enumerate(options, 1)]
        text = "\n".join((question, *([""] if lines else []), *lines))
        self._asked.append(Asked(text, question_choices(reply.approval_id, options)))
        return _ASKED.format(id=reply.approval_id)


def shown(command: str) -> str:
    """Return a command as a person is shown it, in a block that it cannot leave and without characters that cannot be seen.

    A long one has its beginning and its end, and says how much is left out.
    """
    text = "".join(c if c.isprintable() or c in "\n\t" else f"\\u{ord(c):04x}" for c in command)
    left_out = len(text) - _SHOWN_CHARACTERS
    if left_out > 0:
        half = _SHOWN_CHARACTERS // 2
        text = f"{text[:half]}\n[… {left_out:,} characters are left out here: say no if that is too many …]\n{text[-half:]}"
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}"


def call_hash(tool: str, arguments: str) -> str:
    """Return what an approval is for: this tool with these arguments, however their JSON is spaced."""
    try:
        plain = json.dumps(json.loads(arguments), sort_keys=True, separators=(",", ":"))
    except ValueError:
        plain = arguments
    return hashlib.sha256(f"{tool}\0{plain}".encode("utf-8", "replace")).hexdigest()


def approval_choices(approval_id: str) -> tuple[Choice, ...]:
    """Return what a person may say to a call."""
    return (
        Choice(label="Once", command=f"/approve {approval_id} once"),
        Choice(label="This session", command=f"/approve {approval_id} session"),
        Choice(label="Always", command=f"/approve {approval_id} always"),
        Choice(label="No", command=f"/deny {approval_id}"),
    )


def question_choices(approval_id: str, options: tuple[str, ...]) -> tuple[Choice, ...]:
    """Return what a person may say to a question, by number."""
    return tuple(
        Choice(label=option if len(option) <= 40 else option[:39] + "…", command=f"/answer {approval_id} {number}")
        for number, option in enumerate(options, 1)
    )


def sentence_of(asked: tuple[Asked, ...]) -> tuple[str, tuple[Choice, ...]]:
    """Return all that a person is asked at once, and as many choices as fit; commands serve for the rest."""
    choices: list[Choice] = []
    for one in asked:
        if len(choices) + len(one.choices) <= MAX_CHOICES:
            choices += one.choices
    return "\n\n".join(one.text for one in asked), tuple(choices)
