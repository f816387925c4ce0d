"""Routes of OpenAI's protocol."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from hermes_contracts.projection import ProfileProjection
from hermes_gateway.gateway.openai_api.calls import require_profile
from hermes_gateway.gateway.openai_api.protocol import ChatCompletion, ChatRequest, ModelCard, ModelList
from hermes_gateway.gateway.openai_api.service import ChatService
from hermes_gateway.gateway.openai_api.shape import ANSWERS, CallHeadersOf, give
from hermes_gateway.gateway.profiles import ProfileCache
from hermes_gateway.gateway.web.callers import ChatCaller, problems


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

    @router.post("/chat/completions", response_model=ChatCompletion, responses=ANSWERS)
    async def create_completion(request: Request, body: ChatRequest, caller: ChatCaller, headers: CallHeadersOf) -> Response:
        """Send the last message of the request to the agent and return its answer, whole or streamed."""
        begun = await chat.begin(caller, body, headers)
        stream = chat.stream(begun) if begun.stream else None
        return await give(begun.call, headers, stream, lambda: chat.answer(begun, request.is_disconnected))

    return router
