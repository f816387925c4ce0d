"""Neutral → Anthropic Messages. Pure: the same request is the same value, key order and all."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_contracts.conversation import (
    ImagePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from hermes_contracts.model_api import ModelRequest
from hermes_gateway.models.providers.base import Media
from hermes_gateway.models.providers.parts import (
    IMAGE_MISSING,
    NO_OUTPUT,
    answer_tokens,
    arguments_object,
    picture,
    thoughts_of,
    wire_id,
)
from hermes_gateway.models.providers.shapes import Json
from hermes_gateway.models.providers.thinking import claude_thinking
from hermes_gateway.models.target import Target

_MARK: Json = {"type": "ephemeral"}
_MARKED_ENDS = 2
_END = ("user", "assistant")
"""Where a request ended: the user's side spoke, and then the model."""


def to_wire(request: ModelRequest, target: Target, media: Media) -> Json:
    """Return the body of a streaming call, with cache markers at the ends of tools, system and the last two requests.

    The API insists on a longest answer, so the model's own is asked for when nobody says.
    """
    max_tokens = answer_tokens(request, target) or target.known.max_output_tokens
    body: Json = {"model": target.model, "max_tokens": max_tokens}
    marked = target.known.prompt_cache
    if request.tools:
        tools: list[Json] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in request.tools
        ]
        if marked:
            tools[-1]["cache_control"] = _MARK
        body["tools"] = tools
    if request.system:
        system: Json = {"type": "text", "text": request.system}
        body["system"] = [{**system, "cache_control": _MARK} if marked else system]
    written = [_message(message, target.origin, media) for message in request.messages]
    messages = [(role, blocks) for role, blocks in written if blocks]
    if marked:
        _mark_ends(messages)
    body["messages"] = [{"role": role, "content": blocks} for role, blocks in messages]
    if target.known.reasoning:
        thinking, output = claude_thinking(target.model, target.effort, max_tokens, request.messages, target.origin)
        body |= {"thinking": thinking} if thinking else {}
        body |= {"output_config": output} if output else {}
    body["stream"] = True
    return body


def _mark_ends(messages: Sequence[tuple[str, list[Json]]]) -> None:
    """Mark where this request ends and where the one before ended: there its prefix was cached, however long the round."""
    followers = [*(role for role, _ in messages[1:]), "assistant"]
    ends = [blocks for (role, blocks), follower in zip(messages, followers, strict=False) if (role, follower) == _END]
    for blocks in ends[-_MARKED_ENDS:]:
        blocks[-1]["cache_control"] = _MARK


def _message(message: Message, origin: str, media: Media) -> tuple[str, list[Json]]:
    """Return role and blocks, results first; what the API refuses (empty text, foreign thoughts) is left out."""
    role = "assistant" if message.role is Role.ASSISTANT else "user"
    blocks = [block for part in message.parts if (block := _block(part, origin, media)) is not None]
    if message.role is Role.TOOL:
        blocks.sort(key=lambda block: block["type"] != "tool_result")
    return role, blocks


def _block(part: Part, origin: str, media: Media) -> Json | None:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text} if part.text.strip() else None
        case ImagePart():
            found = picture(part, media)
            if found is None:
                return {"type": "text", "text": IMAGE_MISSING}
            return {"type": "image", "source": {"type": "base64", "media_type": found[0], "data": found[1]}}
        case ReasoningPart():
            return _thought(thoughts_of(part, origin))
        case ToolCallPart():
            return {
                "type": "tool_use", "id": wire_id(part.id), "name": part.name, "input": arguments_object(part.arguments)
            }  # fmt: skip
        case ToolResultPart():
            block: Json = {"type": "tool_result", "tool_use_id": wire_id(part.call_id), "content": part.text or NO_OUTPUT}
            if part.is_error:
                block["is_error"] = True
            return block


def _thought(part: ReasoningPart | None) -> Json | None:
    if part is None:
        return None
    if part.data:
        return {"type": "redacted_thinking", "data": part.data}
    if part.signature:
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    return None
