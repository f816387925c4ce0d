"""Routes of OpenAI's protocol."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from hermes_contracts.projection import ProfileProjection
from hermes_gateway.gateway.openai_api.calls import Call, CallHeaders, require_profile
from hermes_gateway.gateway.openai_api.protocol import ChatCompletion, ChatRequest, ModelCard, ModelList
from hermes_gateway.gateway.openai_api.reading import SESSION_HEADER
from hermes_gateway.gateway.openai_api.service import ChatService
from hermes_gateway.gateway.profiles import ProfileCache
from hermes_gateway.gateway.web.callers import ChatCaller, IdempotencyKey, problems
from hermes_gateway.gateway.web.sse import EventStream
from hermes_service import tracing


def answer_headers(call: Call) -> dict[str, str]:
    """Say where an answer belongs."""
    return {SESSION_HEADER: call.client_id, "Hermes-Session": call.route.sid, "Hermes-Message-Id": call.inbound.update_id}


def _card(profile: ProfileProjection) -> ModelCard:
    return ModelCard(id=profile.name, created=int(profile.created_at), owned_by=profile.namespace)


def build_router(chat: ChatService, profiles: ProfileCache) -> APIRouter:
    """Build the routes."""
    router = APIRouter(prefix="/v1", tags=["OpenAI"])

    @router.get("/models", responses=problems())
    async def list_models(caller: ChatCaller) -> ModelList:
        """List the Profiles that the key may use, as models."""
        return ModelList(data=[_card(profile) for profile in chat.models(caller)])

    @router.get("/models/{name}", responses=problems(404, 503))
    async def get_model(name: str, caller: ChatCaller) -> ModelCard:
        """Show one Profile as a model."""
        return _card(require_profile(profiles, caller, name))

    @router.post(
        "/chat/completions",
        response_model=ChatCompletion,
        responses={
            **problems(404, 409, 413, 429, 503, 504),
            200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "The answer"},
        },
    )
    async def create_completion(
        request: Request,
        body: ChatRequest,
        caller: ChatCaller,
        idempotency_key: IdempotencyKey = None,
        session: Annotated[str | None, Header(alias=SESSION_HEADER, description="Conversation to continue")] = None,
        traceparent: Annotated[str | None, Header(include_in_schema=False)] = None,
    ) -> Response:
        """Send the last message of the request to the agent and return its answer, whole or streamed."""
        headers = CallHeaders(session, idempotency_key, tracing.accept(traceparent))
        begun = await chat.begin(caller, body, headers)
        call = begun.call
        if begun.stream:
            return EventStream(chat.stream(begun), close=call.close, headers=answer_headers(call))
        try:
            completion = await chat.answer(begun, request.is_disconnected)
        finally:
            await call.close()
        return Response(completion.model_dump_json(), media_type="application/json", headers=answer_headers(call))

    return router
