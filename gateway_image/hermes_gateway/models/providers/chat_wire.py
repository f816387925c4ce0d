"""Neutral → OpenAI Chat Completions. Pure: the same request is the same value, key order and all."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import zip_longest

from hermes_contracts.conversation import ImagePart, Message, ReasoningPart, Role, TextPart, ToolCallPart, ToolResultPart
from hermes_contracts.crd.profile import Effort
from hermes_contracts.model_api import ModelRequest
from hermes_gateway.models.providers.base import Media
from hermes_gateway.models.providers.parts import (
    IMAGE_MISSING,
    NO_OUTPUT,
    answer_tokens,
    picture,
    texts,
    thoughts_of,
    wire_id,
)
from hermes_gateway.models.providers.quirks import Quirks, quirks_of
from hermes_gateway.models.providers.shapes import Json
from hermes_gateway.models.target import Target

_UNSIGNED = "skip_thought_signature_validator"
"""What Gemini takes in place of a signature, for a call that another model made."""

_MARK: Json = {"type": "ephemeral"}
_MARKED_ENDS = 2


def to_wire(request: ModelRequest, target: Target, media: Media) -> Json:
    """Return the body of a streaming call."""
    quirks = quirks_of(target.base_url)
    body: Json = {"model": target.model}
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in request.tools
        ]
    system: list[Json] = [{"role": "system", "content": request.system}] if request.system else []
    writer = _Writer(target.origin, quirks, media)
    messages = [*system, *(wire for message in request.messages for wire in writer.messages(message))]
    if quirks.marks and target.known.prompt_cache and "claude" in target.model.lower():
        _mark(messages)
    body["messages"] = messages
    if (limit := answer_tokens(request, target)) is not None:
        body[quirks.limit_name] = limit
    if target.known.reasoning and target.effort != "Default":
        body |= _effort(target.effort, quirks)
    if quirks.cache_key and target.known.prompt_cache and request.conversation:
        body["prompt_cache_key"] = request.conversation
    body["stream"] = True
    body["stream_options"] = {"include_usage": True}
    return body


def _mark(messages: Sequence[Json]) -> None:
    """Mark the system prompt, which the tools stand before, and where this request and the one before it ended.

    Only a part can carry a marker, so texts become parts whether marked or not: otherwise more than the markers would
    move from one request to the next. An empty text may carry none.
    """
    ends: list[Json] = []
    for wire, follower in zip_longest(messages, messages[1:]):
        if wire["role"] == "assistant":
            continue
        last = _as_parts(wire)
        if last is None:
            continue
        if wire["role"] == "system":
            last["cache_control"] = _MARK
        elif follower is None or follower["role"] == "assistant":
            ends.append(last)
    for part in ends[-_MARKED_ENDS:]:
        part["cache_control"] = _MARK


def _as_parts(wire: Json) -> Json | None:
    """Turn a message's text into a part. Return its last part, if that can be marked."""
    content = wire["content"]
    if isinstance(content, str):
        text = NO_OUTPUT if wire["role"] == "tool" and not content.strip() else content
        wire["content"] = content = [{"type": "text", "text": text}] if text.strip() else text
    if not isinstance(content, list):
        return None
    last: Json = content[-1]
    return last if last["type"] != "text" or str(last["text"]).strip() else None


def _effort(effort: Effort, quirks: Quirks) -> Json:
    word = effort.lower()
    match quirks.effort:
        case "reasoning":
            return {"reasoning": {"enabled": False} if word == "none" else {"effort": word}}
        case "thinking":
            return {"thinking": {"type": "disabled" if word == "none" else "enabled"}}
        case _:
            return {"reasoning_effort": word}


class _Writer:
    """Writes messages for one host and model."""

    def __init__(self, origin: str, quirks: Quirks, media: Media) -> None:
        self._origin = origin
        self._quirks = quirks
        self._media = media

    def messages(self, message: Message) -> Sequence[Json]:
        if message.role is Role.TOOL:
            return self._results(message)
        if message.role is Role.USER:
            return [{"role": "user", "content": self._content(message)}]
        return [self._assistant(message)]

    def _results(self, message: Message) -> list[Json]:
        """Pictures follow in a message of their own, as results are text."""
        wires: list[Json] = [
            {"role": "tool", "tool_call_id": self._id(part.call_id), "content": part.text}
            for part in message.parts
            if isinstance(part, ToolResultPart)
        ]
        if any(isinstance(part, ImagePart) for part in message.parts):
            wires.append({"role": "user", "content": self._content(message)})
        return wires

    def _assistant(self, message: Message) -> Json:
        wire: Json = {"role": "assistant", "content": texts(message)}
        thoughts = [thought for part in message.parts if (thought := thoughts_of(part, self._origin)) is not None]
        if self._quirks.echo and (text := "".join(thought.text for thought in thoughts)):
            wire["reasoning_content"] = text
        if calls := message.tool_calls():
            wire["tool_calls"] = [self._call(call, thoughts) for call in calls]
        return wire

    def _call(self, call: ToolCallPart, thoughts: Sequence[ReasoningPart]) -> Json:
        function = {"name": call.name, "arguments": call.arguments}
        wire: Json = {"id": self._id(call.id), "type": "function", "function": function}
        if self._quirks.signed_calls:
            signature = next((t.data for t in thoughts if t.item_id == call.id and t.data), _UNSIGNED)
            wire["extra_content"] = {"google": {"thought_signature": signature}}
        return wire

    def _content(self, message: Message) -> str | list[Json]:
        if not any(isinstance(part, ImagePart) for part in message.parts):
            return texts(message)
        content: list[Json] = []
        for part in message.parts:
            if isinstance(part, TextPart):
                content.append({"type": "text", "text": part.text})
            elif isinstance(part, ImagePart):
                found = picture(part, self._media)
                if found is None:
                    content.append({"type": "text", "text": IMAGE_MISSING})
                else:
                    content.append({"type": "image_url", "image_url": {"url": f"data:{found[0]};base64,{found[1]}"}})
        return content

    def _id(self, identity: str) -> str:
        if self._quirks.id_length == 9:
            short = len(identity) == 9 and identity.isascii() and identity.isalnum()
            return identity if short else hashlib.sha256(identity.encode()).hexdigest()[:9]
        return wire_id(identity, self._quirks.id_length)
