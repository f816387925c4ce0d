"""Routes of the Responses protocol."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from hermes_gateway.gateway.openai_api.reading import invalid
from hermes_gateway.gateway.openai_api.shape import ANSWERS, CallHeadersOf, give
from hermes_gateway.gateway.responses_api.protocol import DeletedResponse, ResponseObject, ResponsesRequest
from hermes_gateway.gateway.responses_api.service import ResponsesService
from hermes_gateway.gateway.web.callers import ChatCaller, problems


def build_router(responses: ResponsesService) -> APIRouter:
    """Build the routes."""
    router = APIRouter(prefix="/v1/responses", tags=["OpenAI"])

    @router.post("", response_model=ResponseObject, responses=ANSWERS)
    async def create_response(
        request: Request, body: ResponsesRequest, caller: ChatCaller, headers: CallHeadersOf
    ) -> Response:
        """Send the new message of the input to the agent; returns its answer, whole, streamed, or later."""
        begun = await responses.begin(caller, body, headers)
        stream = responses.stream(begun) if body.stream else None
        return await give(begun.call, headers, stream, lambda: responses.answer(begun, request.is_disconnected))

    @router.get("/{response_id}", responses=problems(404, 503))
    async def get_response(
        response_id: str, caller: ChatCaller, stream: Annotated[bool, Query(description="Must be false")] = False
    ) -> ResponseObject:
        """Show a response that was stored: `queued` until an agent takes it, `in_progress` while it runs."""
        if stream:
            raise invalid("stream", "a response is streamed by the call that creates it: leave this out and ask again")
        return await responses.get(caller, response_id)

    @router.delete("/{response_id}", responses=problems(404, 503))
    async def delete_response(response_id: str, caller: ChatCaller) -> DeletedResponse:
        """Forget a response's id. What was said stays in its session; delete that by the sessions API."""
        await responses.delete(caller, response_id)
        return DeletedResponse(id=response_id)

    return router
