"""Takes a person's answer: decided in the store first, then sent to the agent as a message, which wakes it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hermes_contracts.envelopes import Inbound, Route
from hermes_contracts.store_api import ANSWER_APPROVAL, AnswerApprovalReply, AnswerApprovalRequest
from hermes_gateway.gateway.approvals.sentences import Said, followup
from hermes_gateway.gateway.profiles import ProfileCache
from hermes_service.rpc import StoreClient

_STORE_SECONDS = 2.0

Publish = Callable[[Route, Inbound, str], Awaitable[object]]


def update_id(approval_id: str) -> str:
    """Return the id of the message that carries an answer: one a question, so no answer runs anything twice."""
    return f"approval-{approval_id}"


@dataclass(frozen=True)
class AnswerDesk:
    """For chats and the API alike."""

    store: StoreClient
    profiles: ProfileCache
    publish: Publish

    async def take(self, said: Said, route: Route, *, by: str, user: str = "", traceparent: str = "") -> AnswerApprovalReply:
        """Decide, and tell the agent. Raises HermesError: saying the same again is safe and finishes what was begun."""
        profile = self.profiles.get(route.namespace, route.profile)
        request = AnswerApprovalRequest(
            sid=route.sid,
            owner=route.owner,
            approval_id=said.approval_id,
            by=by,
            user=user,
            approver=profile is not None and by in profile.approvers,
            decision=said.decision,
            scope=said.scope,
            text=said.text,
        )
        reply = await self.store.call(
            ANSWER_APPROVAL, request, timeout_seconds=_STORE_SECONDS, patience_seconds=_STORE_SECONDS
        )
        if reply.outcome == "recorded" and reply.approval is not None and reply.inbound is not None:
            changes = {
                "update_id": update_id(reply.approval.approval_id),
                "text": followup(said, reply.approval),
                "approval": reply.approval.approval_id,
                "images": (),
                "instructions": "",
                "received_at": time.time(),
            }
            await self.publish(route, reply.inbound.model_copy(update=changes), traceparent)
        return reply
