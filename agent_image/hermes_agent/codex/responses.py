"""Between the Responses format, which the program speaks to its model, and the neutral messages of a model call. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from hermes_agent.loop.transcript import Transcript
from hermes_agent.model.collect import Answer, RawCall
from hermes_agent.model.hygiene import clean_text
from hermes_contracts.conversation import (
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
)
from hermes_contracts.model_api import FinishReason
from hermes_contracts.store_api import FrozenPrompt

MAX_TOOLS = 128
_HIDDEN_TOOLS = frozenset({"view_image", "request_user_input"})
"""A picture cannot be passed on here, and nobody can be asked while the program works."""
_PICTURE = "[a picture that cannot be shown here]"
_FREEFORM = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The whole input of the tool, as it is"}},
    "required": ["input"],
}


class Unreadable(ValueError):
    """A request that is not of this format; the text names the field."""


@dataclass(frozen=True)
class Asked:
    """One model call of the program's."""

    transcript: Transcript
    freeform: frozenset[str]
    """Tools whose input is a text and not JSON."""
    kind: str
    """`turn` for the conversation itself; summaries and the like have other names."""


def read_request(body: str, conversation: str) -> Asked:
    """Read a request's JSON; what is sent on is legal whatever it holds. Raises Unreadable."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Unreadable("the request is not JSON") from error
    if not isinstance(request, dict) or not isinstance(request.get("input"), list):
        raise Unreadable("input: a list of items is missing")
    items = [item for item in request["input"] if isinstance(item, dict)]
    system = [_words(request.get("instructions"))]
    while items and items[0].get("role") in ("developer", "system"):
        system.append(_words(items.pop(0).get("content")))
    tools, freeform = _tools(request.get("tools"))
    transcript = Transcript(conversation)
    transcript.set_prompt(FrozenPrompt(system="\n\n".join(filter(None, system)), tools=tools))
    for message in _messages(items):
        transcript.add(message)
    if not transcript.messages:
        raise Unreadable("input: there is no message in it")
    return Asked(transcript, freeform, _kind(request.get("client_metadata")))


def _kind(metadata: object) -> str:
    try:
        told = json.loads(metadata["x-codex-turn-metadata"]) if isinstance(metadata, dict) else {}
        return str(told.get("request_kind", "turn"))
    except (KeyError, ValueError, TypeError, AttributeError):
        return "turn"


def _tools(listed: object) -> tuple[tuple[ToolSpec, ...], frozenset[str]]:
    found: dict[str, ToolSpec] = {}
    freeform = set()
    for tool in listed if isinstance(listed, list) else ():
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or name in _HIDDEN_TOOLS or len(found) >= MAX_TOOLS:
            continue
        description, parameters = str(tool.get("description") or ""), tool.get("parameters")
        if tool.get("type") == "function" and isinstance(parameters, dict):
            found[name] = ToolSpec(name=name, description=description, parameters=parameters)
        elif tool.get("type") == "custom":
            grammar = tool.get("format")
            rules = grammar.get("definition") if isinstance(grammar, dict) else None
            text = f"{description}\n\nThe input follows this grammar:\n{rules}" if rules else description
            found[name] = ToolSpec(name=name, description=text, parameters=dict(_FREEFORM))
            freeform.add(name)
    return tuple(found.values()), frozenset(freeform)


def _messages(items: Iterable[dict[str, object]]) -> Iterator[Message]:
    names: dict[str, str] = {}
    parts = [found for item in items for found in _parts(item, names)]
    for role, group in groupby(parts, key=lambda found: found[0]):
        yield Message(role=role, parts=tuple(part for _, part in group))


def _parts(item: dict[str, object], names: dict[str, str]) -> Iterator[tuple[Role, Part]]:
    """Return an item's part and whose it is; what is unknown is left out."""
    kind, call_id = str(item.get("type") or "message"), str(item.get("call_id") or "")
    if kind == "message":
        text = _words(item.get("content"))
        role = Role.ASSISTANT if item.get("role") == "assistant" else Role.USER
        if text:
            yield role, TextPart(text=text)
    elif kind == "reasoning":
        part = _thought(item.get("encrypted_content"))
        if part is not None:
            yield Role.ASSISTANT, part
    elif kind in ("function_call", "custom_tool_call"):
        name = names[call_id] = str(item.get("name") or "")
        arguments = item.get("arguments") if kind == "function_call" else json.dumps({"input": str(item.get("input") or "")})
        yield Role.ASSISTANT, ToolCallPart(id=call_id, name=name, arguments=str(arguments or "{}"))
    elif kind in ("function_call_output", "custom_tool_call_output"):
        output = _words(item.get("output"))
        yield Role.TOOL, ToolResultPart(call_id=call_id, name=names.get(call_id, ""), text=output)


def _words(content: object) -> str:
    if isinstance(content, str):
        return clean_text(content)
    if not isinstance(content, list):
        return ""
    pieces = []
    for piece in content:
        if isinstance(piece, dict):
            text = piece.get("text")
            pieces.append(text if isinstance(text, str) else _PICTURE if piece.get("type") == "input_image" else "")
    return clean_text("\n".join(filter(None, pieces)))


def _thought(sealed: object) -> ReasoningPart | None:
    try:
        return ReasoningPart.model_validate_json(base64.b64decode(str(sealed), validate=True)) if sealed else None
    except ValueError:
        return None


def write_answer(answer: Answer, asked: Asked, number: int) -> str:
    """Return the event stream that tells the program the whole answer at once."""
    items: list[dict[str, object]] = []
    for index, part in enumerate(answer.reasoning):
        # The program keeps what it cannot read and sends it back: so a provider's thinking finds its way home.
        sealed = base64.b64encode(part.model_dump_json().encode()).decode()
        summary = [{"type": "summary_text", "text": part.text}] if part.text else []
        items.append({"type": "reasoning", "id": f"rs_{number}_{index}", "summary": summary, "encrypted_content": sealed})
    if answer.text:
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        items.append({"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content})
    items += [_call(call, asked.freeform, f"fc_{number}_{index}") for index, call in enumerate(answer.calls)]
    response = {"id": f"resp_{number}"}
    events: list[dict[str, object]] = [{"type": "response.created", "response": response}]
    for index, item in enumerate(items):
        events += _told(item, index)
    usage = {
        "input_tokens": answer.usage.input_tokens,
        "input_tokens_details": {"cached_tokens": answer.usage.cached_input_tokens},
        "output_tokens": answer.usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": answer.usage.reasoning_tokens},
        "total_tokens": answer.usage.input_tokens + answer.usage.output_tokens,
    }
    status = "incomplete" if answer.finish is FinishReason.LENGTH and answer.calls else "completed"
    end = {**response, "status": status, "usage": usage}
    if status == "incomplete":
        end["incomplete_details"] = {"reason": "max_output_tokens"}
    events.append({"type": f"response.{status}", "response": end})
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def _told(item: dict[str, object], index: int) -> list[dict[str, object]]:
    done = {"type": "response.output_item.done", "output_index": index, "item": item}
    if item["type"] != "message":
        return [done]
    added = {"type": "response.output_item.added", "output_index": index, "item": {**item, "content": []}}
    return [added, done]


def _call(call: RawCall, freeform: frozenset[str], item_id: str) -> dict[str, object]:
    if call.name not in freeform:
        arguments = call.arguments or "{}"
        return {"type": "function_call", "id": item_id, "call_id": call.id, "name": call.name, "arguments": arguments}
    try:
        text = json.loads(call.arguments)["input"]
    except (ValueError, KeyError, TypeError):
        text = call.arguments
    return {"type": "custom_tool_call", "id": item_id, "call_id": call.id, "name": call.name, "input": str(text)}
