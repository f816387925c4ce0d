"""Routes of what an agent asks: list, answer; and of what its owner has allowed for good: list, take back."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, StringConstraints

from hermes_contracts.envelopes import Route
from hermes_contracts.names import RoutingKey
from hermes_contracts.store_api import (
    LIST_APPROVALS,
    LIST_GRANTS,
    REVOKE_GRANT,
    Approval,
    Grant,
    GrantsRequest,
    ListApprovalsRequest,
    RevokeGrantRequest,
)  # fmt: skip
from hermes_gateway.gateway.approvals.desk import AnswerDesk, update_id
from hermes_gateway.gateway.approvals.sentences import MAX_TEXT_CHARACTERS, Said, sentence
from hermes_gateway.gateway.sessions_api.service import SessionsService
from hermes_gateway.gateway.web.callers import SessionsCaller, Trace, problems
from hermes_gateway.gateway.web.errors import ApiError
from hermes_service import tracing

_STATUS = {"not_found": 404, "not_yours": 403}


class AnswerBody(BaseModel):
    """A decision. `scope` is for approve; `text` is the reason of a no, or the answer (a choice's number will do)."""

    model_config = ConfigDict(extra="forbid")

    decision: Literal["approve", "deny", "answer"]
    scope: Literal["once", "session", "always"] = "once"
    text: Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARACTERS)] = ""


class AnswerView(BaseModel):
    """The decision is kept; `message_id` names the turn that goes on with it."""

    approval: Approval
    message_id: str
    text: str


class ApprovalPage(BaseModel):
    """Newest first, at most 100."""

    object: Literal["list"] = "list"
    data: list[Approval]


class GrantPage(BaseModel):
    """Newest first, at most 200."""

    object: Literal["list"] = "list"
    data: list[Grant]


def build_router(sessions: SessionsService, desk: AnswerDesk) -> APIRouter:
    """Build the routes."""
    router = APIRouter(prefix="/api", tags=["Approvals"], responses=problems(404, 503))

    @router.get("/sessions/{id}/approvals")
    async def list_approvals(
        id: str,  # noqa: A002 - the path's own word
        caller: SessionsCaller,
        pending: Annotated[bool, Query(description="Only those that can still be answered")] = True,
    ) -> ApprovalPage:
        """List what the session's agent asks."""
        await sessions.get(caller, id)
        request = ListApprovalsRequest(sid=id, owner=caller.owner, pending=pending)
        reply = await desk.store.call(LIST_APPROVALS, request)
        return ApprovalPage(data=list(reply.approvals))

    @router.post("/sessions/{id}/approvals/{approval_id}", responses=problems(404, 409, 503))
    async def answer_approval(
        id: str,  # noqa: A002
        approval_id: Annotated[str, Path(pattern=r"^[2-7][a-z2-7]{7}$")],
        body: AnswerBody,
        caller: SessionsCaller,
        traceparent: Trace = None,
    ) -> AnswerView:
        """Answer one question; the first answer counts, and saying the same again is the same answer."""
        if body.decision == "answer" and not body.text.strip():
            raise ApiError(400, "text: is empty; say the answer", code="invalid_value", param="text")
        session = await sessions.get(caller, id)
        key = RoutingKey.model_validate(session.key)
        route = Route(sid=id, namespace=session.namespace, profile=session.profile, owner=caller.owner, key=key)
        said = Said(body.decision, approval_id, body.scope, body.text.strip())
        reply = await desk.take(said, route, by=caller.owner, traceparent=tracing.accept(traceparent))
        if reply.outcome != "recorded" or reply.approval is None:
            raise ApiError(_STATUS.get(reply.outcome, 409), sentence(said, reply), code=reply.outcome, final=True)
        return AnswerView(approval=reply.approval, message_id=update_id(approval_id), text=sentence(said, reply))

    @router.get("/grants")
    async def list_grants(caller: SessionsCaller) -> GrantPage:
        """List the calls that you have allowed for good."""
        reply = await desk.store.call(LIST_GRANTS, GrantsRequest(owner=caller.owner, namespace=caller.namespace))
        return GrantPage(data=[grant for grant in reply.grants if grant.profile in caller.profiles])

    @router.delete("/grants/{profile}/{call_hash}", status_code=204)
    async def revoke_grant(
        profile: Annotated[str, Path(max_length=63)],
        call_hash: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")],
        caller: SessionsCaller,
    ) -> Response:
        """Take one back: the next such call asks again."""
        request = RevokeGrantRequest(owner=caller.owner, namespace=caller.namespace, profile=profile, call_hash=call_hash)
        await desk.store.call(REVOKE_GRANT, request)
        return Response(status_code=204)

    return router
