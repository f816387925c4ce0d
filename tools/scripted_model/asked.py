"""What a request asks, whichever format it came in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Format = Literal["openai", "anthropic"]
Json = Mapping[str, object]


class BadRequest(ValueError):
    """A request that the provider would refuse with 400."""


@dataclass(frozen=True)
class Asked:
    """One request. `step` counts the assistant's messages since the person spoke last."""

    format: Format
    model: str
    stream: bool
    include_usage: bool
    text: str
    step: int
    tools: Mapping[str, Json]
    """Parameter schemas of the offered tools, by name."""
    calls: Sequence[tuple[str, str]]
    """Name and argument text of the calls made since the person spoke last."""
    results: Sequence[str]
    conversation: str
    """Hash of everything up to what the person said last."""
    digest: str
    size: int
    body: Json = field(repr=False)


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def text_of(content: object, kind: str = "text") -> str:
    """Return the text of a message's content: a string, or a list of parts."""
    if isinstance(content, str):
        return content
    parts = [_object(part) for part in _list(content)]
    return "".join(str(part.get("text", "")) for part in parts if part.get("type") == kind)


def parse(body: bytes, kind: Format) -> Asked:
    """Read a request. Raises BadRequest."""
    try:
        data = json.loads(body)
    except ValueError as error:
        raise BadRequest(f"We could not parse the JSON body of your request: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("model"), str):
        raise BadRequest("you must provide a model parameter")
    messages = [_object(message) for message in _list(data.get("messages"))]
    if not messages:
        raise BadRequest("messages: at least one message is required")
    last = max((n for n, message in enumerate(messages) if _is_person(message, kind)), default=-1)
    since = messages[last + 1 :]
    digest = hashlib.sha256(body).hexdigest()
    return Asked(
        format=kind,
        model=data["model"],
        stream=bool(data.get("stream")),
        include_usage=kind == "anthropic" or bool(_object(data.get("stream_options")).get("include_usage")),
        text=text_of(messages[last].get("content")) if last >= 0 else "",
        step=sum(message.get("role") == "assistant" for message in since),
        tools=_tools(data, kind),
        calls=_calls(since, kind),
        results=_results(since, kind),
        conversation=hashlib.sha256(_bytes([data.get("system"), messages[: last + 1]])).hexdigest(),
        digest=digest,
        size=len(body),
        body=data,
    )


def _is_person(message: Json, kind: Format) -> bool:
    if message.get("role") != "user":
        return False
    content = message.get("content")
    if kind == "openai" or isinstance(content, str):
        return True
    return any(_object(part).get("type") != "tool_result" for part in _list(content))


def _tools(data: Json, kind: Format) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for tool in map(_object, _list(data.get("tools"))):
        spec = _object(tool.get("function")) if kind == "openai" else tool
        found[str(spec.get("name", ""))] = _object(spec.get("parameters" if kind == "openai" else "input_schema"))
    return found


def _calls(since: Sequence[Json], kind: Format) -> list[tuple[str, str]]:
    if kind == "openai":
        functions = [_object(_object(c).get("function")) for m in since for c in _list(m.get("tool_calls"))]
        return [(str(f.get("name", "")), str(f.get("arguments", ""))) for f in functions]
    uses = [_object(part) for m in since for part in _list(m.get("content"))]
    return [(str(u.get("name", "")), json.dumps(u.get("input"))) for u in uses if u.get("type") == "tool_use"]


def _results(since: Sequence[Json], kind: Format) -> list[str]:
    if kind == "openai":
        return [text_of(m.get("content")) for m in since if m.get("role") == "tool"]
    parts = [_object(part) for m in since for part in _list(m.get("content"))]
    return [text_of(p.get("content")) for p in parts if p.get("type") == "tool_result"]


def _bytes(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def prefix_hashes(body: Json) -> list[str]:
    """Return cumulative hashes: tools, then system, then after each message.

    One request continues another byte for byte when the other's list is the start of its own. Cache markers are left out:
    they move from request to request and are no content.
    """
    running = hashlib.sha256()
    found = []
    for value in (body.get("tools"), body.get("system"), *_list(body.get("messages"))):
        running.update(_bytes(_without_markers(value)) + b"\n")
        found.append(running.hexdigest()[:16])
    return found


def _without_markers(value: object) -> object:
    if isinstance(value, dict):
        return {k: _without_markers(v) for k, v in value.items() if k != "cache_control"}
    return [_without_markers(v) for v in value] if isinstance(value, list) else value
