"""What a person answers to a run's questions, and which of them is meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from hermes_contracts.access import ApiKeyRecord
from hermes_contracts.names import RoutingKey
from hermes_contracts.store_api import LIST_APPROVALS, Approval, GetTurnRequest, ListApprovalsRequest, Turn
from hermes_gateway.gateway.approvals.desk import AnswerDesk, update_id
from hermes_gateway.gateway.approvals.sentences import MAX_TEXT_CHARACTERS, Said, sentence
from hermes_gateway.gateway.ingest import route_to
from hermes_gateway.gateway.openai_api.calls import CHANNEL, Calls, require_profile
from hermes_gateway.gateway.responses_api.records import ResponseRecord
from hermes_gateway.gateway.runs_api.standing import ASKED, Questions, Standing, questions_of
from hermes_gateway.gateway.web.errors import ApiError

_STATUS = {"not_found": 404, "not_yours": 403}
_ALIASES = {"approve": "once", "approved": "once", "allow": "once"}


def _plain(value: object) -> object:
    word = value.strip().lower() if isinstance(value, str) else value
    return _ALIASES.get(word, word) if isinstance(word, str) else word


class RunApproval(BaseModel):
    """Body of `POST /v1/runs/{run_id}/approval`. Without an id the oldest open question is meant."""

    model_config = ConfigDict(extra="ignore")

    choice: Annotated[Literal["once", "session", "always", "deny"], BeforeValidator(_plain)]
    """`approve`, `approved` and `allow` are `once`."""
    approval_id: Annotated[str, StringConstraints(pattern=r"^[2-7][a-z2-7]{7}$")] | None = None
    all: bool = Field(default=False, validation_alias=AliasChoices("all", "resolve_all"))
    """Every open question of the run."""
    reason: Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARACTERS)] = ""
    """Of a no; the model reads it."""


class RunApproved(BaseModel):
    """The answers are kept, and the run goes on."""

    object: Literal["hermes.run.approval_response"] = "hermes.run.approval_response"
    run_id: str
    choice: Literal["once", "session", "always", "deny"]
    resolved: int
    """How many questions were answered."""
    approvals: list[str]
    """Their ids."""


@dataclass(frozen=True)
class RunQuestions:
    """Looks at a run's questions and takes answers to them."""

    calls: Calls
    desk: AnswerDesk

    async def of(self, record: ResponseRecord) -> Questions:
        """Return them. Raises HermesError."""
        request = ListApprovalsRequest(sid=record.sid, owner=record.owner, pending=False)
        return questions_of(record, (await self.calls.store.call(LIST_APPROVALS, request)).approvals)

    async def standing(self, record: ResponseRecord) -> Standing:
        """Return where a run is. Raises HermesError."""
        first = await self.turn(record, record.update_id)
        if not first.found or first.reason != ASKED:
            return Standing((first,), Questions())
        questions = await self.of(record)
        later = [await self.turn(record, update_id(one.approval_id)) for one in questions.answered]
        return Standing((first, *later), questions)

    async def turn(self, record: ResponseRecord, update: str) -> Turn:
        """Return one of a run's turns. Raises HermesError."""
        request = GetTurnRequest(sid=record.sid, owner=record.owner, channel=CHANNEL, account=record.owner, update_id=update)
        return await self.calls.turn(request)

    async def answer(self, caller: ApiKeyRecord, record: ResponseRecord, body: RunApproval, trace: str) -> RunApproved:
        """Take an answer. Raises ApiError 403, 404 or 409, or HermesError: saying the same again finishes what was begun."""
        meant = self._meant(await self.standing(record), body)
        profile = require_profile(self.calls.profiles, caller, record.model)
        key = RoutingKey(channel=CHANNEL, account=record.owner, chat=record.client_id)
        route = route_to(profile, record.owner, key).model_copy(update={"sid": record.sid})
        for approval_id in meant:
            said = (
                Said("deny", approval_id, text=body.reason.strip())
                if body.choice == "deny"
                else Said("approve", approval_id, body.choice)
            )
            reply = await self.desk.take(said, route, by=caller.owner, traceparent=trace)
            if reply.outcome != "recorded":
                raise ApiError(_STATUS.get(reply.outcome, 409), sentence(said, reply), code=reply.outcome, final=True)
        return RunApproved(run_id=record.id, choice=body.choice, resolved=len(meant), approvals=meant)

    def _meant(self, standing: Standing, body: RunApproval) -> list[str]:
        waiting: tuple[Approval, ...] = standing.questions.waiting
        if not waiting:
            # Decided and perhaps not told: the gateway that was asked may have died in between.
            later = zip(standing.questions.answered, standing.turns[1:], strict=True)
            waiting = tuple(one for one, turn in later if not turn.found)
        if body.approval_id is not None:
            if all(one.approval_id != body.approval_id for one in standing.questions.all):
                raise ApiError(404, f"this run did not ask {body.approval_id!r}", code="not_found", param="approval_id")
            return [body.approval_id]
        if not waiting:
            raise ApiError(409, "this run waits for no approval", code="approval_not_pending", final=True)
        return [one.approval_id for one in (waiting if body.all else waiting[:1])]
