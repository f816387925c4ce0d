"""Changes of a request that a provider's complaint asks for: worth one more attempt each, and pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from hermes_contracts.conversation import ImagePart, Message, Part, ReasoningPart, TextPart, ToolSpec
from hermes_contracts.model_api import ModelRequest
from hermes_gateway.models.providers.errors import ProviderError, Remedy
from hermes_gateway.models.target import Target

IMAGE_LEFT_OUT = "[A picture was here. The model cannot see it.]"
IMAGE_DESCRIBED = "[A picture was here. Another model describes it so: {words}]"
OUTPUT_SLACK_TOKENS = 64
_SMALLEST_ANSWER = 256
_FALLBACK_ANSWER = 4096
_NAMED = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
"""Keywords whose keys are names of the schema's author."""

Change = Callable[[Part], Part | None]


def repaired(request: ModelRequest, target: Target, error: ProviderError) -> tuple[ModelRequest, Target] | None:
    """Return the call as it may work, or None when nothing is known or nothing would change."""
    match error.hints.remedy:
        case Remedy.WITHOUT_REASONING:
            changed = without_reasoning(request)
            if changed != request and target.api_mode in ("anthropic_messages", "bedrock_converse"):
                # These want to see the thought that began a round before they think on.
                target = replace(target, effort="Default")
        case Remedy.WITHOUT_IMAGES:
            changed = without_images(request)
        case Remedy.WITHOUT_PATTERNS:
            changed = without_patterns(request)
        case Remedy.SHORTER_ANSWER:
            changed = with_shorter_answer(request, target, error.max_output_tokens)
        case Remedy.WITHOUT_EFFORT if target.effort != "Default":
            return request, replace(target, effort="Default")
        case _:
            return None
    return None if changed == request else (changed, target)


def without_reasoning(request: ModelRequest) -> ModelRequest:
    """Return the request without any earlier thoughts of a model."""
    return _mapped(request, lambda part: None if isinstance(part, ReasoningPart) else part)


def without_images(request: ModelRequest, descriptions: Mapping[str, str] | None = None) -> ModelRequest:
    """Return the request with a picture's description in its place, or a sentence where it has none."""
    known = descriptions or {}

    def change(part: Part) -> Part:
        if not isinstance(part, ImagePart):
            return part
        words = known.get(part.media_id)
        return TextPart(text=IMAGE_LEFT_OUT if words is None else IMAGE_DESCRIBED.format(words=words))

    return _mapped(request, change)


def without_patterns(request: ModelRequest) -> ModelRequest:
    """Return the request whose tools' schemas have no `pattern` and no `format`."""
    tools = tuple(ToolSpec(name=t.name, description=t.description, parameters=_plain(t.parameters)) for t in request.tools)
    return request.model_copy(update={"tools": tools})


def with_shorter_answer(request: ModelRequest, target: Target, allowed: int) -> ModelRequest:
    """Return the request that asks for at most `allowed` tokens, somewhat less; 0 means that nobody said how many."""
    asked = request.max_output_tokens or target.max_output_tokens or target.known.max_output_tokens
    limit = max(allowed - OUTPUT_SLACK_TOKENS, _SMALLEST_ANSWER) if allowed else min(asked // 2, _FALLBACK_ANSWER)
    return request if limit >= asked else request.model_copy(update={"max_output_tokens": max(limit, 1)})


def _mapped(request: ModelRequest, change: Change) -> ModelRequest:
    messages = []
    for message in request.messages:
        parts = tuple(new for part in message.parts if (new := change(part)) is not None)
        messages.append(message if parts == message.parts else Message(role=message.role, parts=parts))
    return request.model_copy(update={"messages": tuple(messages)})


def _plain(schema: dict[str, object]) -> dict[str, object]:
    """Leave a keyword out only where it is one: a property may be named `format`."""
    found: dict[str, object] = {}
    for key, value in schema.items():
        if key in ("pattern", "format") and isinstance(value, str):
            continue
        if key in _NAMED and isinstance(value, dict):
            found[key] = {name: _plain(inner) if isinstance(inner, dict) else inner for name, inner in value.items()}
        elif isinstance(value, dict):
            found[key] = _plain(value)
        elif isinstance(value, list) and key not in ("enum", "required"):
            found[key] = [_plain(inner) if isinstance(inner, dict) else inner for inner in value]
        else:
            found[key] = value
    return found
