"""Routes of the Responses protocol."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from hermes_gateway.gateway.openai_api.calls import CallHeaders
from hermes_gateway.gateway.openai_api.reading import SESSION_HEADER, invalid
from hermes_gateway.gateway.openai_api.router import answer_headers
from hermes_gateway.gateway.responses_api.protocol import DeletedResponse, ResponseObject, ResponsesRequest
from hermes_gateway.gateway.responses_api.service import ResponsesService
from hermes_gateway.gateway.web.callers import ChatCaller, IdempotencyKey, problems
from hermes_gateway.gateway.web.sse import EventStream
from hermes_service import tracing


def build_router(responses: ResponsesService) -> APIRouter:
    """Build the routes."""
    router = APIRouter(prefix="/v1/responses", tags=["OpenAI"])

    @router.post(
        "",
        response_model=ResponseObject,
        responses={
            **problems(404, 409, 413, 429, 503, 504),
            200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "The response"},
        },
    )
    async def create_response(
        request: Request,
        body: ResponsesRequest,
        caller: ChatCaller,
        idempotency_key: IdempotencyKey = None,
        session: Annotated[str | None, Header(alias=SESSION_HEADER, description="Conversation to continue")] = None,
        traceparent: Annotated[str | None, Header(include_in_schema=False)] = None,
    ) -> Response:
        """Send the new message of the input to the agent; returns its answer, whole, streamed, or later."""
        headers = CallHeaders(session, idempotency_key, tracing.accept(traceparent))
        begun = await responses.begin(caller, body, headers)
        call = begun.call
        if body.stream:
            return EventStream(responses.stream(begun), close=call.close, headers=answer_headers(call))
        try:
            answer = await responses.answer(begun, request.is_disconnected)
        finally:
            await call.close()
        return Response(answer.model_dump_json(), media_type="application/json", headers=answer_headers(call))

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
