"""Neutral → Amazon Bedrock Converse. Pure: the same request is the same value, key order and all."""

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

_MARKED_ENDS = 2


def _mark() -> Json:
    return {"cachePoint": {"type": "default"}}


def to_wire(request: ModelRequest, target: Target, media: Media) -> Json:
    """Return the body of a call, with cache points at the ends of tools, system and the last two requests."""
    marked = target.known.prompt_cache
    body: Json = {}
    max_tokens = answer_tokens(request, target)
    if target.known.reasoning:
        extra, needs_limit = _effort(request, target, max_tokens or target.known.max_output_tokens)
        if extra:
            body["additionalModelRequestFields"] = extra
        if needs_limit:
            max_tokens = max_tokens or target.known.max_output_tokens
    if max_tokens is not None:
        body["inferenceConfig"] = {"maxTokens": max_tokens}
    if request.tools:
        tools: list[Json] = [
            {
                "toolSpec": {
                    "name": tool.name, "description": tool.description or tool.name, "inputSchema": {"json": tool.parameters}
                }
            }
            for tool in request.tools
        ]  # fmt: skip
        # Nova takes points in messages and system, and refuses them among tools.
        body["toolConfig"] = {"tools": [*tools, _mark()] if marked and "nova" not in target.model else tools}
    if request.system:
        system: list[Json] = [{"text": request.system}]
        body["system"] = [*system, _mark()] if marked else system
    messages = _turns(request, target.origin, media)
    if marked:
        for _, blocks in [turn for turn in messages if turn[0] == "user"][-_MARKED_ENDS:]:
            blocks.append(_mark())
    body["messages"] = [{"role": role, "content": blocks} for role, blocks in messages]
    return body


def _effort(request: ModelRequest, target: Target, max_tokens: int) -> tuple[Json, bool]:
    """Return fields that the model itself reads, and whether they make sense only with a longest answer."""
    if target.effort in ("Default", "None"):
        return {}, False
    if "claude" in target.model:
        thinking, output = claude_thinking(target.model, target.effort, max_tokens, request.messages, target.origin)
        fields: Json = {"thinking": thinking} if thinking else {}
        return fields | ({"output_config": output} if output else {}), bool(thinking)
    word = "low" if target.effort == "Minimal" else target.effort.lower()
    if "nova" in target.model:
        return {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": word}}, False
    return {"reasoning_effort": word}, False


def _turns(request: ModelRequest, origin: str, media: Media) -> list[tuple[str, list[Json]]]:
    """Return roles and blocks in strict alternation, as the API wants: neighbours of one role are joined."""
    turns: list[tuple[str, list[Json]]] = []
    for message in request.messages:
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        blocks = _blocks(message, origin, media, with_tools=bool(request.tools))
        if not blocks:
            continue
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((role, blocks))
    return turns


def _blocks(message: Message, origin: str, media: Media, *, with_tools: bool) -> list[Json]:
    render = _block if with_tools else _as_text
    blocks = [block for part in message.parts if (block := render(part, origin, media)) is not None]
    if message.role is Role.TOOL:
        blocks.sort(key=lambda block: "toolResult" not in block)
    return blocks


def _as_text(part: Part, origin: str, media: Media) -> Json | None:
    """Calls and results as text: the API refuses them as such in a request that offers no tool."""
    if isinstance(part, ToolCallPart):
        return {"text": f"[called {part.name} with {part.arguments}]"}
    if isinstance(part, ToolResultPart):
        return {"text": f"[{part.name} answered: {part.text or NO_OUTPUT}]"}
    return _block(part, origin, media)


def _block(part: Part, origin: str, media: Media) -> Json | None:
    match part:
        case TextPart():
            return {"text": part.text} if part.text.strip() else None
        case ImagePart():
            found = picture(part, media)
            if found is None:
                return {"text": IMAGE_MISSING}
            return {"image": {"format": found[0].removeprefix("image/"), "source": {"bytes": found[1]}}}
        case ReasoningPart():
            return _thought(thoughts_of(part, origin))
        case ToolCallPart():
            use = {"toolUseId": wire_id(part.id), "name": part.name, "input": arguments_object(part.arguments)}
            return {"toolUse": use}
        case ToolResultPart():
            result: Json = {"toolUseId": wire_id(part.call_id), "content": _result(part.text)}
            if part.is_error:
                result["status"] = "error"
            return {"toolResult": result}


def _result(text: str) -> Sequence[Json]:
    return [{"text": text or NO_OUTPUT}]


def _thought(part: ReasoningPart | None) -> Json | None:
    if part is None:
        return None
    if part.data:
        return {"reasoningContent": {"redactedContent": part.data}}
    if part.signature:
        return {"reasoningContent": {"reasoningText": {"text": part.text, "signature": part.signature}}}
    return None
