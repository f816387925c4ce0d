"""Neutral → OpenAI Responses. Pure: the same request is the same value, key order and all.

Nothing is kept at the provider (`store` is false), so the model's thoughts come back encrypted and are sent again.
"""

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
from hermes_gateway.models.providers.parts import IMAGE_MISSING, NO_OUTPUT, answer_tokens, picture, thoughts_of, wire_id
from hermes_gateway.models.providers.shapes import Json
from hermes_gateway.models.target import Target


def to_wire(request: ModelRequest, target: Target, media: Media) -> Json:
    """Return the body of a streaming call."""
    body: Json = {"model": target.model}
    if request.system:
        body["instructions"] = request.system
    if request.tools:
        body["tools"] = [
            {
                "type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters,
                "strict": False,
            }
            for tool in request.tools
        ]  # fmt: skip
    body["input"] = [item for message in request.messages for item in _items(message, target.origin, media)]
    if (limit := answer_tokens(request, target)) is not None:
        body["max_output_tokens"] = limit
    if target.known.reasoning:
        reasoning: Json = {} if target.effort == "Default" else {"effort": target.effort.lower()}
        if target.effort != "None":
            reasoning["summary"] = "auto"
        body["reasoning"] = reasoning
        body["include"] = ["reasoning.encrypted_content"]
    if target.known.prompt_cache and request.conversation:
        body["prompt_cache_key"] = request.conversation
    body["store"] = False
    body["stream"] = True
    return body


def _items(message: Message, origin: str, media: Media) -> Sequence[Json]:
    match message.role:
        case Role.USER:
            return [{"role": "user", "content": _content(message, media)}]
        case Role.TOOL:
            items: list[Json] = [
                {"type": "function_call_output", "call_id": wire_id(part.call_id), "output": part.text or NO_OUTPUT}
                for part in message.parts
                if isinstance(part, ToolResultPart)
            ]
            if any(isinstance(part, ImagePart) for part in message.parts):
                items.append({"role": "user", "content": _content(message, media)})
            return items
        case _:
            return _answer(message, origin)


def _answer(message: Message, origin: str) -> list[Json]:
    """Thoughts go back only with the item that followed them: alone they are refused."""
    items: list[Json] = []
    waiting: list[Json] = []
    for part in message.parts:
        if isinstance(part, ReasoningPart):
            thought = thoughts_of(part, origin)
            if thought is not None and thought.data and thought.item_id:
                waiting.append(_thought(thought))
            continue
        item = _item(part)
        if item is not None:
            items += [*waiting, item]
            waiting = []
    return items


def _thought(part: ReasoningPart) -> Json:
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    return {"type": "reasoning", "id": part.item_id, "summary": summary, "encrypted_content": part.data}


def _item(part: Part) -> Json | None:
    if isinstance(part, TextPart) and part.text:
        return {"role": "assistant", "content": [{"type": "output_text", "text": part.text}]}
    if isinstance(part, ToolCallPart):
        return {
            "type": "function_call", "call_id": wire_id(part.id), "name": part.name, "arguments": part.arguments or "{}"
        }  # fmt: skip
    return None


def _content(message: Message, media: Media) -> list[Json]:
    content: list[Json] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            content.append({"type": "input_text", "text": part.text})
        elif isinstance(part, ImagePart):
            found = picture(part, media)
            if found is None:
                content.append({"type": "input_text", "text": IMAGE_MISSING})
            else:
                content.append({"type": "input_image", "image_url": f"data:{found[0]};base64,{found[1]}"})
    return content
